"""`overspill up`: the whole system on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli.called import as_called
from deploy.cli.flags import stack_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from deploy.cli.console import Progress
    from deploy.local.folders import Folders
    from deploy.local.kafka import Broker
    from deploy.local.stack import Stack
    from runtime.settings import Settings


_EXAMPLE = (
    '{"id": "r1", "model_name": "tiny-docs", "priority": "batch", '
    '"payload": {"prompt": "The with statement", "max_tokens": 16}}'
)


@click.command(
    epilog=example(
        "overspill up --kafka-port 19092 --data-dir /tmp/overspill",
        "overspill up --config docs/examples/tensor-parallel.toml",
    )
)
@stack_flags
def up(settings: Settings, kafka_port: int | None, data_dir: Path | None, *, fresh: bool) -> None:
    """Run Kafka, topics, control, router and a node a pool on loopback, until Ctrl-C.

    The cpu pool runs a tiny model for real; gpu and npu run it too, at made-up speed, and say so
    (`emulated`). With a pool `gpu-tp` in the settings a node of it runs too; its text is made up as
    well. Everything is kept in one folder and goes on where it was the next time.
    """
    import asyncio

    from deploy.cli.console import Progress
    from deploy.cli.interrupts import stoppable
    from deploy.local.folders import Folders
    from deploy.local.kafka import start_broker
    from streams.policy import policy

    # A name that nobody knows is told before anything starts.
    for name in (settings.policy.name, settings.policy.shadow):
        if name:
            policy(name)
    folders = Folders.of(data_dir)
    with (
        stoppable(),
        Progress() as say,
        start_broker(port=kafka_port, data_dir=folders.kafka, fresh=fresh, progress=say) as broker,
    ):
        asyncio.run(_serve(_stack(settings, broker, folders, say), say))
    click.echo("Stopped.")


def _stack(settings: Settings, broker: Broker, folders: Folders, say: Progress) -> Stack:
    from deploy.cli.top import PAGE_PORT
    from deploy.local.fleet import LAPTOP
    from deploy.local.stack import Stack

    return Stack(settings, LAPTOP, broker, folders, say, PAGE_PORT)


async def _serve(stack: Stack, say: Progress) -> None:
    import asyncio

    from deploy.cli.interrupts import asked_to_stop
    from deploy.local.stack import run_stack

    async def until_stopped() -> None:
        say.settle()
        click.echo(as_called(_screen(stack)))
        await asyncio.Event().wait()

    await run_stack(stack, until_stopped, asked_to_stop())


def _screen(stack: Stack) -> str:
    from deploy.local.fleet import LAPTOP, MODEL, hardware
    from runtime.settings import KafkaSettings

    servers = stack.settings.kafka.bootstrap_servers
    where = (
        "" if servers == KafkaSettings().bootstrap_servers else f" --bootstrap-servers {servers}"
    )
    urls = {role.name: f"{role.url}/metrics" for role in stack.roles}
    nodes = (
        f"  {pool:<8} {device.in_words:<32} {urls[f'executor-{pool}']}"
        for pool, device in hardware(stack.settings.pools, LAPTOP).items()
    )
    return "\n".join(
        (
            "",
            f"Overspill is ready. Kafka listens on {servers}; Ctrl-C stops everything.",
            "",
            f"  {'pool':<8} {'its node':<32} metrics",
            *nodes,
            f"  {'router':<41} {urls['router']}",
            f"  {'control':<41} {urls['control']}",
            "",
            f"All of it on one page: {urls['control'].removesuffix('metrics')}",
            "",
            "In another terminal:",
            f'  overspill submit --model {MODEL} --prompt "The with statement" --wait{where}',
            f"  overspill results --follow{where}",
            f"  overspill status --watch{where}",
            f"  overspill top --url {urls['control'].removesuffix('/metrics')}",
            "",
            f"Or produce JSON to topic {stack.settings.topics.requests} with any Kafka client,",
            "each with an id of its own (one that comes again within ten minutes gets no answer):",
            f"  {_EXAMPLE}",
            f"Logs of the roles are in {stack.roles[0].log_file.parent}.",
        )
    )
