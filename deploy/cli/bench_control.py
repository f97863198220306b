"""`overspill bench threshold`, `placement`, `control`: what the control plane is measured by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli.console import Progress
from deploy.cli.document import print_document
from deploy.cli.flags import as_json
from deploy.cli.help import example
from deploy.cli.own_broker import broker_flag, broker_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.benches.threshold import Answer


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
    from lab.benches.threshold import bench_threshold, document_of

    draw = _drawing() if plot is not None else None
    with Progress() as say:
        say("Stepping the load")
        answers = bench_threshold()
    if draw is not None and plot is not None:
        draw(answers, plot)
    if as_json:
        print_document(document_of(answers))
    else:
        _print_threshold(answers)


@click.command(
    epilog=example("overspill bench placement", "overspill bench placement --run-ms 50 --random")
)
@click.option(
    "--run-ms", type=click.FloatRange(1), default=1000.0, show_default=True, help="Of a request."
)
@click.option(
    "--load",
    type=click.FloatRange(0.01, 1.0),
    default=0.7,
    show_default=True,
    help="As a share of all slots.",
)
@click.option(
    "--seconds", type=click.FloatRange(5), default=30.0, show_default=True, help="To measure for."
)
@click.option("--random", "at_random", is_flag=True, help="Requests come at random, not evenly.")
@broker_flag
@as_json
def placement(
    *,
    run_ms: float,
    load: float,
    seconds: float,
    at_random: bool,
    bootstrap_servers: str | None,
    as_json: bool,
) -> None:
    """Count requests sent to a full node while another had a free slot; a minute.

    3 routers, 4 nodes of 8 slots, as processes of their own; judged afterwards from the topics.
    """
    from lab.benches.placement import Question, bench_placement, document_of
    from runtime.process import run_loop

    question = Question(run_ms, load, seconds, even=not at_random)
    with Progress() as say, broker_for(bootstrap_servers, say) as servers:
        cost = run_loop(lambda: bench_placement(servers, question, say))
    if as_json:
        print_document(document_of(cost))
        return
    click.echo(
        f"{cost.requests} requests, {cost.requests_per_s:.0f}/s: {cost.misplaced} "
        f"({cost.misplaced_share:.2%}) to a full node while another had a free slot"
    )
    click.echo(
        f"age of the counts at a decision: median {cost.age_ms_p50:.0f} ms, p99 "
        f"{cost.age_ms_p99:.0f} ms; a decision is committed after {cost.commit_ms_p50:.0f} ms, p99 "
        f"{cost.commit_ms_p99:.0f} ms"
    )


@click.command(epilog=example("overspill bench control", "overspill bench control --json"))
@click.option(
    "--seconds", type=click.FloatRange(5), default=30.0, show_default=True, help="To measure for."
)
@broker_flag
@as_json
def control(*, seconds: float, bootstrap_servers: str | None, as_json: bool) -> None:
    """Measure a control worker while 500 nodes report twice a second (Linux); a minute."""
    from lab.benches.control import bench_control, document_of
    from runtime.process import run_loop

    with Progress() as say, broker_for(bootstrap_servers, say) as servers:
        cost = run_loop(lambda: bench_control(servers, seconds=seconds, progress=say))
    if as_json:
        print_document(document_of(cost))
        return
    click.echo(
        f"{cost.nodes} nodes, {cost.reports_per_s:.0f} reports/s: {cost.cores:.2f} cores; "
        f"{cost.ticks} steps of the threshold, jitter p99 {cost.tick_jitter_ms_p99:.0f} ms"
    )
    click.echo(
        f"{cost.snapshots} snapshots of {cost.snapshot_bytes / 1000:.0f} kB, one every "
        f"{cost.snapshot_gap_ms_p50:.0f} ms, p99 {cost.snapshot_gap_ms_p99:.0f} ms"
    )


def _drawing() -> Callable[[Sequence[Answer], Path], None]:
    """Return what draws the plot; it is asked for first, so that no run is in vain."""
    from runtime.extras import install_command
    from schemas.errors import UsageError

    try:
        from lab.benches.threshold_plot import plot_threshold
    except ImportError as error:
        raise UsageError(f"--plot needs matplotlib: {install_command('sim')}") from error
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
