"""`overspill bench live`: the simulator beside the system it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli.console import Progress
from deploy.cli.document import print_document
from deploy.cli.flags import as_json
from deploy.cli.help import example
from deploy.cli.own_broker import broker_flag, broker_for
from deploy.cli.trace_flags import seed_flag, trace_flag

if TYPE_CHECKING:
    from lab.benches.agreement import Agreement


@click.command(
    epilog=example(
        "overspill bench live --trace docs/examples/trace.csv --seconds 60",
        "overspill bench live --trace azure.csv.gz --speed 2 --policy overflow --json",
    )
)
@trace_flag
@click.option(
    "--from-s", type=click.FloatRange(0), default=0.0, show_default=True, help="Begin there."
)
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    default=600.0,
    show_default=True,
    help="Of the trace's own time.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 3),
    default=1.0,
    show_default=True,
    help="Let requests come so many times as fast.",
)
@click.option(
    "--every",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Send each so-manieth request only, where the machine is small.",
)
@click.option("--policy", default="overflow", show_default=True, metavar="NAME", help="To run.")
@click.option(
    "--fleet",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A process for each node; default: half of the fleet of `simulate`.",
)
@seed_flag
@broker_flag
@as_json
def live(
    *,
    trace: Path,
    from_s: float,
    seconds: float,
    speed: float,
    every: int,
    policy: str,
    fleet: Path | None,
    seed: int,
    bootstrap_servers: str | None,
    as_json: bool,
) -> int:
    """Run a slice of a trace on real Kafka with emulated nodes, and simulate the same.

    Ends with 0 if they agree: cost within 5 %, objectives met within 2 points. The ways that
    requests take through Kafka are measured in the live run and given to the simulator. It takes as
    long as the slice, and until the queues are empty.
    """
    from lab.benches.agreement import document_of
    from lab.benches.live import LIVE_FLEET, LiveRun, bench_live
    from lab.simulator.fleet import read_fleet
    from lab.simulator.traces import read_trace
    from runtime.process import run_loop

    hardware = read_fleet(fleet or LIVE_FLEET)
    arrivals = read_trace(trace)
    run = LiveRun(policy, from_s, seconds, speed, every, seed)
    with Progress() as say, broker_for(bootstrap_servers, say) as servers:
        found = run_loop(lambda: bench_live(servers, hardware, arrivals, run, say))
    if as_json:
        print_document(document_of(found))
    else:
        _print(found)
    return 0 if found.agrees else 1


def _print(found: Agreement) -> None:
    from deploy.cli.tables import console, table

    shown = table(("",), ("requests", "metered", "objectives met", "p50 s", "p99 s", "by pool"))
    for name, side in (("live", found.live), ("simulated", found.simulated)):
        shown.add_row(
            name,
            str(side.requests),
            f"{side.metered_cost:,.1f}",
            f"{side.slo_attainment:.2%}",
            f"{side.latency_p50_ms / 1000:.2f}",
            f"{side.latency_p99_ms / 1000:.2f}",
            ", ".join(f"{pool} {share:.1%}" for pool, share in side.share_by_pool.items()),
        )
    console().print(shown)
    hops = ", ".join(f"{name} {ms:.0f}" for name, ms in found.hops._asdict().items())
    click.echo(f"hops, ms: {hops}")
    click.echo(
        f"the simulator's cost is {found.cost_apart:+.2%} off, objectives met "
        f"{found.attainment_apart * 100:+.2f} points: {'agreed' if found.agrees else 'NOT agreed'}"
    )
