"""`overspill demo`: the whole system once, with an explanation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli.flags import as_json, stack_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings


@click.command(epilog=example("overspill demo", "overspill demo --json"))
@as_json
@stack_flags
def demo(
    settings: Settings,
    kafka_port: int | None,
    data_dir: Path | None,
    *,
    fresh: bool,
    as_json: bool,
) -> int:
    """Start everything, send each kind of request, show where each went and why, stop everything.

    It uses a temporary folder and free ports unless told otherwise. It ends with 0 only if a reader
    that begins at offset 0 finds exactly one terminal record for every request.
    """
    from deploy.cli.demo_run import run_demo

    return run_demo(
        settings, kafka_port=kafka_port, data_dir=data_dir, fresh=fresh, as_json=as_json
    )
