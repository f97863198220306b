"""The broker that a benchmark runs on: one that is named, or an embedded one, only for this."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import click

Command = Callable[..., Any]


def broker_flag(command: Command) -> Command:
    """Add --bootstrap-servers, with an embedded broker as the default."""
    return click.option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="Brokers to use; default: an embedded one, only for this.",
    )(command)


@contextlib.contextmanager
def broker_for(named: str | None, say: Callable[[str], None]) -> Iterator[str]:
    """Yield the addresses of the broker named, else of one that ends with this.

    Raises:
        UsageError: it is named in another form than host:port.
        BrokerUnreachable: it does not answer.
    """
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what goes wrong we say ourselves
    if named is not None:
        asyncio.run(_reach(named))
        yield named
        return
    import tempfile
    from pathlib import Path

    from deploy.local.kafka import start_broker
    from runtime.ports import free_port

    with (
        tempfile.TemporaryDirectory(prefix="overspill-bench-") as folder,
        start_broker(port=free_port(), data_dir=Path(folder), progress=say) as broker,
    ):
        yield broker.bootstrap_servers


async def _reach(named: str) -> None:
    from runtime.connection import connection_of
    from runtime.kafka.connection import connect
    from runtime.settings import load_settings

    settings = load_settings(flags={"kafka.bootstrap_servers": named})
    client = await connect(connection_of(settings))
    await client.close()
