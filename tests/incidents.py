"""Stages five incidents on a real system and takes a picture of control's page in each.

`python -m tests.incidents docs/incidents` makes the pictures of docs/incidents.md anew; it needs
Chromium, and some minutes. Nothing on the pictures is made up but the nodes' run times (emulated).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from selenium.webdriver import Chrome

from deploy.local.kafka import start_broker
from runtime.ports import free_port
from tests.browser import browser
from tests.kafka.system import System, ended_afterwards
from tests.waiting import in_time, until

WITHIN_S = 60.0
NODES = {"gpu-1": 50, "gpu-2": 50, "cpu-1": 300, "npu-1": 120}
"""Run times in ms."""
SLOTS = 4
KINDS = ({"latency_slo_ms": 2000}, {"priority": "batch"}, {"has_lora": True})
EVERY_S = 0.15
POISON = 300


async def stage(folder: Path) -> None:
    """Stage one incident after the other; each picture is `<name>.png` in the folder."""
    with tempfile.TemporaryDirectory() as scratch:
        broker = start_broker(port=free_port(), data_dir=Path(scratch) / "kafka", progress=print)
        system = System(broker.bootstrap_servers, Path(scratch))
        with broker, ended_afterwards(system), browser(Path(scratch) / "profile") as chromium:
            await system.create(4)
            system.start("control", "control")
            system.start("router", "router")
            for name in NODES:
                start_node(system, name)
            await system.until_ready(*system.roles.values())
            await asyncio.to_thread(chromium.get, system.roles["control"].url)
            traffic = asyncio.ensure_future(keep_sending(system))
            try:
                await incidents(system, chromium, folder)
                broker.stop()
                await taken(chromium, "Kafka does not answer", folder / "broker-gone.png")
            finally:
                traffic.cancel()


async def incidents(system: System, chromium: Chrome, folder: Path) -> None:
    """Stage those after which the system is well again."""
    await taken(chromium, "All is well", folder / "well.png")

    for name in ("gpu-1", "gpu-2"):
        system.roles[name].kill()
    await taken(chromium, "Pool gpu is down", folder / "gpu-dead.png")
    for name in ("gpu-1", "gpu-2"):
        start_node(system, name)
    await gone(chromium, "is down")

    await restart(system, "gpu-2", slower=5)
    await taken(chromium, "Node gpu-2 (gpu) is slow", folder / "slow-node.png")
    await restart(system, "gpu-2")
    await gone(chromium, "is slow")

    async with system.producer() as producer:
        for number in range(POISON):
            await producer.send(system.names.requests, b"{", key=str(number).encode())
    await taken(chromium, "were no request", folder / "poison-flood.png")

    system.roles["control"].kill()
    await taken(chromium, "Control does not answer", folder / "control-dead.png")
    system.roles["control"].start()
    await gone(chromium, "Control does not")


def start_node(system: System, name: str, slower: int = 1) -> None:
    """Run a node, so many times slower than usual; one that ran before has its arguments anew."""
    system.roles.pop(name, None)
    system.start_node(name, slots=SLOTS, run_ms=NODES[name] * slower)


async def restart(system: System, name: str, slower: int = 1) -> None:
    """End a node in order and run it anew."""
    role = system.roles[name]
    role.ask_to_stop()
    await asyncio.to_thread(role.wait)
    start_node(system, name, slower)


async def keep_sending(system: System) -> None:
    """Send a mix of requests until cancelled; a broker that is gone is no matter."""
    number = 0
    while True:
        with suppress(Exception):
            await system.send([f"r{number}"], **KINDS[number % len(KINDS)])
        number += 1
        await asyncio.sleep(EVERY_S)


async def taken(chromium: Chrome, words: str, picture: Path) -> None:
    """Take a picture once the page says these words, and what follows from them is seen too."""
    await said(chromium, lambda told: words in told)
    await asyncio.sleep(3)
    await asyncio.to_thread(chromium.save_screenshot, str(picture))
    print(f"{picture}: {words}")  # noqa: T201  a command


async def gone(chromium: Chrome, words: str) -> None:
    """Wait until the page no longer says these words."""
    await said(chromium, lambda told: words not in told)


async def said(chromium: Chrome, holds: Callable[[str], bool]) -> None:
    script = "return document.querySelector('#conditions').textContent"

    async def so() -> bool:
        return holds(str(await asyncio.to_thread(chromium.execute_script, script)))

    await until(so, in_time(WITHIN_S), poll_s=0.5)


if __name__ == "__main__":
    asyncio.run(stage(Path(sys.argv[1])))
