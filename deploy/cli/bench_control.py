"""`overspill bench threshold`: what the control plane is measured by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli.console import Progress
from deploy.cli.flags import as_json
from deploy.cli.help import example

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.bench_threshold import Answer


@click.command(
    epilog=example("overspill bench threshold", "overspill bench threshold --plot threshold.svg")
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Draw it too; .svg, .png or .pdf. Needs the extra `sim`.",
)
@as_json
def threshold(*, plot: Path | None, as_json: bool) -> None:
    """Answer a step of the load (0.2x to 3x capacity, and back) with each controller; 30 s.

    In virtual time on a small queue model: no broker is needed, and each run gives the same.
    """
    from lab.bench_threshold import bench_threshold, document_of

    draw = _drawing() if plot is not None else None
    with Progress() as say:
        say("Stepping the load")
        answers = bench_threshold()
    if draw is not None and plot is not None:
        draw(answers, plot)
    if as_json:
        import orjson

        click.echo(orjson.dumps(document_of(answers)))
    else:
        _print_threshold(answers)


def _drawing() -> Callable[[Sequence[Answer], Path], None]:
    """Return what draws the plot; it is asked for first, so that no run is in vain."""
    from schemas.errors import UsageError

    try:
        from lab.plot_threshold import plot_threshold
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install 'overspill[sim]'") from error
    return plot_threshold


def _print_threshold(answers: Sequence[Answer]) -> None:
    from deploy.cli.tables import console, table

    columns = table(
        ("fleet", "controller"),
        ("settled s", "threshold at the ends", "overshoot", "changes/min", "turns"),
    )
    for answer in answers:
        settled = ["never" if value is None else f"{value:g}" for value in answer.settled_s]
        columns.add_row(
            answer.fleet,
            answer.controller,
            " / ".join(settled),
            " / ".join(str(value) for value in answer.ends_at),
            str(answer.overshoot),
            f"{answer.changes_per_minute:.1f}",
            str(answer.turns),
        )
    console().print(columns)
    click.echo("settled s and threshold: at 0.2x, after the step to 3x, after the step back")
