"""`overspill kafka`: the embedded broker and nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import click

from deploy.cli.console import Progress
from deploy.cli.flags import broker_flags
from deploy.cli.help import example

LOOK_S = 0.5
"""How often to see whether the broker still runs."""


@click.command(
    epilog=example(
        "overspill kafka --kafka-port 19092 --data-dir /tmp/overspill",
    )
)
@broker_flags
def kafka(kafka_port: int | None, data_dir: Path | None, *, fresh: bool) -> None:
    """Run the embedded Kafka broker on loopback until Ctrl-C.

    It is real Apache Kafka, fetched the first time. Data is kept between runs; `up` uses the same.
    """
    from deploy.cli.interrupts import stoppable
    from deploy.local.folders import Folders
    from deploy.local.kafka import start_broker

    with (
        stoppable(),
        Progress() as say,
        start_broker(
            port=kafka_port, data_dir=Folders.of(data_dir).kafka, fresh=fresh, progress=say
        ) as broker,
    ):
        say.settle()
        click.echo(f"Kafka is ready at {broker.bootstrap_servers}; Ctrl-C stops it.")
        click.echo(f"Its data is in {broker.data_dir}.")
        while True:
            broker.check()
            time.sleep(LOOK_S)
