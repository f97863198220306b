"""The flags of commands that run a trace, declared once."""

from __future__ import annotations

from pathlib import Path

import click

trace_flag = click.option(
    "--trace",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Azure's CSV or Mooncake's JSON lines, gzipped or not.",
)

seed_flag = click.option(
    "--seed", type=int, default=1, show_default=True, help="Of what no trace tells."
)
