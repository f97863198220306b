"""`overspill simulate`: policies on a request trace, in virtual time."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli.console import Progress
from deploy.cli.document import print_document
from deploy.cli.flags import as_json
from deploy.cli.help import example
from deploy.cli.trace_flags import seed_flag, trace_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from lab.savings.bound import Bound
    from lab.savings.fleet_search import Found
    from lab.simulator.fleet import Fleet
    from lab.simulator.measures import Measures
    from lab.simulator.workload import Asked


@click.command(
    epilog=example(
        "overspill simulate --trace docs/examples/trace.csv",
        "overspill simulate --trace conversation_trace.jsonl.gz --speed 2 --policy overflow --json",
    )
)
@trace_flag
@click.option(
    "--policy", "policies", metavar="NAME,...", help="What to compare; default: every policy."
)
@click.option(
    "--fleet",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Pools, prices, speeds (docs/lab.md); default: 32 gpu, 64 cpu and 16 npu slots.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Let requests come so many times as fast.",
)
@seed_flag
@click.option(
    "--bound", is_flag=True, help="Also solve for the least that any schedule costs; needs `sim`."
)
@click.option(
    "--search-fleet",
    "attainment",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Also search the smallest fleet of these pools that meets so many objectives, as 0.99.",
)
@as_json
def simulate(
    trace: Path,
    policies: str | None,
    fleet: Path | None,
    speed: float,
    seed: int,
    *,
    bound: bool,
    attainment: float | None,
    as_json: bool,
) -> None:
    """Say what policies would cost, and which objectives they would meet, on a trace.

    The policy is the one that routes; hardware and what no trace tells of a request are made up by
    the fleet file and by a seeded rule, which docs/lab.md publishes. Needs no broker.
    """
    from lab.savings.fleet_search import smallest_fleet
    from lab.simulator.compare import GPU_ONLY, compare
    from lab.simulator.fleet import DEFAULT_FLEET, read_fleet
    from lab.simulator.measures import document_of
    from lab.simulator.traces import read_trace
    from lab.simulator.workload import workload
    from streams.policy import POLICIES, policy

    names = list(POLICIES) if policies is None else policies.split(",")
    for name in names:
        policy(name)
    hardware = read_fleet(fleet or DEFAULT_FLEET)
    with Progress() as say:
        say(f"reading {trace}")
        times_s = [time.perf_counter()]
        requests = workload(read_trace(trace), seed, speed)
        times_s.append(time.perf_counter())
        measured = compare(hardware, requests, names, say)
        times_s.append(time.perf_counter())
        least = _bound(hardware, requests, say) if bound else None
        smallest = {}
        if attainment is not None:
            for name in names:
                smallest[name] = smallest_fleet(hardware, requests, policy(name), attainment, say)
    # Beside the result and not in it: one seed gives the same bytes.
    click.echo(_pace(len(requests), len(measured), *times_s), err=True)
    asked = {name: measured[name] for name in names}
    if as_json:
        document = document_of(
            trace.name,
            len(requests),
            seed,
            asked,
            measured[GPU_ONLY],
            None if least is None else least.metered_cost,
        )
        if attainment is not None:
            document["fleets"] = {
                name: None if found is None else found._asdict() for name, found in smallest.items()
            }
        print_document(document)
        return

    from deploy.cli.tables import console

    lasts_min = requests[-1].at_ms / 60_000
    click.echo(f"{trace.name}: {len(requests):,} requests in {lasts_min:.1f} min, seed {seed}")
    console().print(_table(asked, measured[GPU_ONLY]))
    click.echo("p50/p99: seconds from arrival to the end of the run.")
    if least is not None:
        click.echo(_in_words(least, len(requests)))
    for name, found in smallest.items():
        click.echo(f"Smallest fleet, {name}: {_fleet_in_words(found)}")
    owned = ", ".join(f"{name} {price:g}" for name, price in hardware.prices_per_s.items())
    click.echo(f"Metered: busy slots only, in gpu slot-seconds. All slots cost a second: {owned}.")


def _bound(fleet: Fleet, requests: Sequence[Asked], say: Callable[[str], None]) -> Bound:
    from runtime.extras import install_command
    from schemas.errors import UsageError

    try:
        from lab.savings.bound import lower_bound
    except ModuleNotFoundError as error:
        raise UsageError(f"--bound needs {error.name}: {install_command('sim')}") from None
    say("bound: solving")
    return lower_bound(fleet, requests)


def _pace(requests: int, policies: int, began_s: float, read_s: float, ended_s: float) -> str:
    seconds = ended_s - read_s
    return (
        f"Simulated {requests * policies:,} requests ({policies} policies, {requests:,} each) in "
        f"{seconds:.1f} s, {requests * policies / seconds:,.0f} a second; read and drawn in "
        f"{read_s - began_s:.1f} s."
    )


def _fleet_in_words(found: Found | None) -> str:
    if found is None:
        return "none is large enough"
    nodes = ", ".join(f"{count} {pool}" for pool, count in found.nodes.items() if count)
    return (
        f"{nodes} nodes, {found.cost_per_s:g} gpu slots of cost whether busy or not, "
        f"{found.attainment:.2%} of objectives met"
    )


def _in_words(bound: Bound, requests: int) -> str:
    said = (
        f"Bound: no schedule that meets all objectives costs less than {bound.metered_cost:,.0f}, "
        f"by a program of {bound.variables:,} variables in {bound.solve_s:.1f} s "
        f"({bound.solve_s / requests * 1e6:.0f} us a request)."
    )
    if bound.too_late:
        said += f" {bound.too_late} objectives nobody can meet, and it does not."
    if not bound.gpus_limited:
        said += " The gpus cannot hold what must run there in time: taken as if they could."
    return said


def _table(measured: dict[str, Measures], gpu_only: Measures) -> Table:
    """Return a column a policy: five of them fit on a terminal of 80 columns."""
    from deploy.cli.tables import table
    from lab.simulator.measures import of_gpu_only

    shown = table(("",), tuple(measured))

    def row(name: str, cell: Callable[[Measures], str]) -> None:
        shown.add_row(name, *map(cell, measured.values()))

    row("metered", lambda one: f"{one.metered_cost:,.0f}")
    row("of gpu-only's", lambda one: _percent(of_gpu_only(one, gpu_only)))
    row("objectives met", lambda one: f"{one.slo_attainment:.2%}")
    for name in gpu_only.latency_ms:
        row(f"{name} p50/p99", partial(_latencies_s, name))
    row("ran off the gpu", lambda one: f"{one.overflow_share:.1%}")
    row("threshold", lambda one: f"{one.threshold.min}-{one.threshold.max}")
    row("steps of it", lambda one: str(one.threshold.changes))
    row("unserved", lambda one: str(one.unserved))
    return shown


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _latencies_s(priority: str, measures: Measures) -> str:
    known_ms = measures.latency_ms[priority]
    return "/".join("-" if one is None else f"{one / 1000:.1f}" for one in known_ms)
