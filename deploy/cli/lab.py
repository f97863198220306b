"""`overspill lab`: what routing saves, with tables, plots and one page to pass on."""

from __future__ import annotations

import math
from pathlib import Path

import click

from deploy.cli.console import Progress
from deploy.cli.help import example


@click.command(
    epilog=example(
        "overspill lab --trace docs/examples/trace.csv --trace docs/examples/trace.jsonl --seeds 1",
        "overspill lab --trace azure.csv.gz --fleet docs/examples/fleet-article.toml@20",
    )
)
@click.option(
    "--trace",
    "traces",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="As of simulate; may be repeated, one with conversations last.",
)
@click.option(
    "--fleet",
    "fleets",
    multiple=True,
    metavar="FILE[@SPEED]",
    help="Fleets beside the default one; traces come to it so many times as fast.",
)
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="How many.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=math.inf,
    help="Of each trace's second half; default: all of it.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("lab-report"), show_default=True,
    metavar="DIR", help="Where report.html, tables.md and plots go; a stopped run goes on there.",
)  # fmt: skip
def lab(
    traces: tuple[Path, ...], fleets: tuple[str, ...], seeds: int, minutes: float, out: Path
) -> None:
    """Compare policies with the arithmetic, with a bound and with each other; takes long.

    Policies are judged on the second half of each trace: what is set in them was set on the first.
    Needs the extra `sim`, and no broker.
    """
    from lab.simulator.fleet import read_fleet
    from lab.simulator.traces import read_trace
    from lab.tables import in_markdown
    from runtime.extras import install_command
    from schemas.errors import UsageError

    try:
        from lab.report.findings import Place, find
    except ModuleNotFoundError as error:
        raise UsageError(f"this needs {error.name}: {install_command('sim')}") from None
    places = [Place("default", read_fleet(), 1.0)]
    for said in fleets:
        file, _, speed = said.partition("@")
        name = Path(file).stem.removeprefix("fleet-")
        places.append(Place(name, read_fleet(Path(file)), _speed(said, speed)))
    with Progress() as say:
        read = {trace.name.partition(".")[0]: read_trace(trace) for trace in traces}
        found = find(read, places, range(1, seeds + 1), minutes, out, say)
    for table in found.accepted:
        click.echo(in_markdown(table))
    click.echo(f"{out / 'report.html'} is one page with all of it; tables.md has the tables")


def _speed(said: str, speed: str) -> float:
    from schemas.errors import UsageError

    try:
        return float(speed or 1.0)
    except ValueError:
        raise UsageError(
            f"--fleet {said}: write it as FILE or FILE@SPEED, as fleet.toml@20"
        ) from None
