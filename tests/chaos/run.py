"""One run of one fault by one seed: start, load, hurt, wait until it is at rest, judge."""

from __future__ import annotations

import random
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from runtime.ports import LOOPBACK
from tests.chaos.cluster import Cluster
from tests.chaos.faults.fault import Fault, Needs
from tests.chaos.found import write_down
from tests.chaos.history import HistoryFile, read_history
from tests.chaos.load import Load
from tests.chaos.oracle import Judgement, Outcome, judge
from tests.chaos.proxy import Proxy
from tests.chaos.stack import PARTITIONS, Kill, Stack
from tests.kafka.system import System

DISK = "768m"
"""Of the small disk: a broker takes 300 MB when it is new, most of it indexes that are not full."""


class Report(NamedTuple):
    """What a run showed.

    Attributes:
        ended: roles that ended by themselves, which none of them should.
        recovery_s: the longest that something hurt took to be ready again; None: nothing was.
        stall_s: the longest that a partition of `results` stood still under load.
        history: the file that it can be judged from again.
    """

    fault: str
    seed: int
    judgement: Judgement
    kills: tuple[Kill, ...]
    ended: tuple[str, ...]
    recovery_s: float | None
    stall_s: float
    history: Path

    @property
    def outcome(self) -> Outcome:
        """Return the verdict on records and roles."""
        return Outcome.FAIL if self.ended else self.judgement.outcome


async def run(
    fault: Fault,
    seed: int,
    *,
    folder: Path,
    per_s: float,
    bootstrap: str = "",
    cluster: Cluster | None = None,
    scale: float = 1.0,
) -> Report:
    """Make a fault under load and judge what came of it; a seed makes the same schedule again.

    Args:
        fault, seed: which.
        folder: for history and logs.
        per_s: requests a second.
        bootstrap: where the broker is that nobody may hurt.
        cluster: or one that is ours.
        scale: of the fault's full length.
    """
    name = f"{fault.name.replace(' ', '-')}-{seed}"
    history = HistoryFile(folder / f"{name}.jsonl", fault=fault.name, seed=seed, per_s=per_s)
    async with _network(fault, seed, cluster) as proxy:
        direct = cluster.bootstrap_servers if cluster else bootstrap
        address = f"{LOOPBACK}:{cluster.proxy_port}" if cluster and proxy else direct
        system = System(address, folder)
        system.connection = {"bootstrap_servers": direct}  # whoever watches is not hurt
        stack = Stack(system, history, seed, scale=scale, cluster=cluster, proxy=proxy)
        load = Load(system, history, seed, per_s)
        try:
            await system.create(PARTITIONS)
            for role in fault.standing:
                stack.start(role)
            await stack.until_ready(*fault.standing)
            async with load.running():
                await fault.inflict(stack)
            history.note("rest", at_rest=await stack.comes_to_rest())
            await write_down(system, history)
        finally:
            history.close()
            for role in system.running:
                role.kill()
    judgement = judge(read_history(history.path))
    return Report(
        fault.name,
        seed,
        judgement,
        tuple(stack.kills),
        tuple(stack.ended),
        max(stack.recoveries_s, default=None),
        load.stall_s,
        history.path,
    )


@asynccontextmanager
async def _network(fault: Fault, seed: int, cluster: Cluster | None) -> AsyncIterator[Proxy | None]:
    if fault.needs is not Needs.PROXY:
        yield None
        return
    assert cluster is not None
    proxy = Proxy(cluster.proxied_port, random.Random(f"{seed}/network"))
    async with proxy.listening(cluster.proxy_port):
        yield proxy


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a small file system; None where that needs a right that we do not have."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
