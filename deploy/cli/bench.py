"""`overspill bench`: measurements that anyone can repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli import bench_bounds, bench_control, bench_live
from deploy.cli.console import Progress
from deploy.cli.document import print_document
from deploy.cli.flags import as_json
from deploy.cli.help import example
from deploy.cli.own_broker import broker_flag, broker_for

if TYPE_CHECKING:
    from lab.benches.decide import DecideCost
    from lab.benches.lora import LoraGain
    from lab.benches.router import RouterCost


@click.group()
def bench() -> None:
    """Measure what the system costs and does, and whether its bounds hold."""


for command in (
    bench_control.threshold,
    bench_control.placement,
    bench_control.control,
    bench_bounds.rebalance,
    bench_bounds.soak,
    bench_live.live,
):
    bench.add_command(command)


@bench.command(epilog=example("overspill bench decide", "overspill bench decide --json"))
@as_json
def decide(*, as_json: bool) -> None:
    """Time single decisions: policy, node choice and view update; needs no broker; 10 s."""
    from dataclasses import asdict

    from lab.benches.decide import bench_decide

    with Progress() as say:
        say("Timing decisions")
        cost = bench_decide()
    if as_json:
        print_document(asdict(cost))
    else:
        _print_decide(cost)


@bench.command(epilog=example("overspill bench router", "overspill bench router --rounds 9 --json"))
@click.option(
    "--records", type=click.IntRange(10_000), default=60_000, show_default=True, help="Of each run."
)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Of both.")
@broker_flag
@as_json
def router(*, records: int, rounds: int, bootstrap_servers: str | None, as_json: bool) -> None:
    """Time the router beside a bare exactly-once copy loop, in turn, on the same broker; minutes.

    The copy loop parses each record, adds two headers and writes one extra record a transaction.
    """
    from lab.benches.router import bench_router, document_of

    with Progress() as say, broker_for(bootstrap_servers, say) as servers:
        cost = bench_router(servers, records=records, rounds=rounds, progress=say)
    if as_json:
        print_document(document_of(cost))
    else:
        _print_router(cost)


@bench.command(epilog=example("overspill bench lora", "overspill bench lora --rounds 9 --json"))
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Of both.")
@as_json
def lora(*, rounds: int, as_json: bool) -> None:
    """Time requests of three LoRA adapters as they come and grouped by the heap; 30 s.

    Real llama.cpp in this process with the tiny model, one thread; needs no broker.
    """
    from deploy.local.tiny_model import ADAPTERS, MODEL_NAME, MODEL_PATH
    from lab.benches.lora import bench_lora
    from runtime.process import run_loop

    with Progress() as say:
        say("Generating with three adapters")
        gain = run_loop(lambda: bench_lora(MODEL_NAME, MODEL_PATH, ADAPTERS, rounds))
    if as_json:
        gains = {"gain_by_clock": gain.by_clock, "gain_by_cpu": gain.by_cpu}
        speeds = {
            order: [speed._asdict() for speed in getattr(gain, order)]
            for order in ("interleaved", "grouped")
        }
        print_document({**gain._asdict(), **speeds, **gains})
    else:
        _print_lora(gain)


def _print_decide(cost: DecideCost) -> None:
    click.echo(
        f"{cost.decisions} decisions of each policy, {cost.pools} pools of {cost.nodes_per_pool} "
        "nodes, us each, with node choice and view update"
    )
    for one in cost.policies:
        click.echo(f"  {one.policy:18} median {one.median_us:5.1f}, p99 {one.p99_us:5.1f}")
    click.echo(
        f"a batch's advance {cost.advance_us:.0f} us, a snapshot's load {cost.load_us:.0f} us"
    )
    click.echo(f"medians by request: {', '.join(one.policy for one in cost.policies)}")
    for number, case in enumerate(cost.policies[0].cases):
        medians = "  ".join(f"{one.cases[number].median_us:5.1f}" for one in cost.policies)
        click.echo(f"  {medians}  {case.name}, {case.partitions} partitions")


def _print_router(cost: RouterCost) -> None:
    for number, (bare, routed) in enumerate(
        zip(cost.bare_per_s, cost.router_per_s, strict=True), 1
    ):
        click.echo(f"round {number}: copy loop {bare:,.0f} records/s, router {routed:,.0f}")
    click.echo(f"the router does {cost.ratio:.2f} of the copy loop's rate (median of the rounds)")


def _print_lora(gain: LoraGain) -> None:
    click.echo(
        f"{gain.requests} requests of {gain.tokens} tokens for {gain.adapters} adapters in turn, "
        f"{gain.slots} slots, tokens a second:"
    )
    for number, (mixed, grouped) in enumerate(zip(gain.interleaved, gain.grouped, strict=True), 1):
        click.echo(
            f"round {number}: as they came {mixed.per_s:,.0f} ({mixed.per_cpu_s:,.0f} a second of "
            f"CPU), grouped {grouped.per_s:,.0f} ({grouped.per_cpu_s:,.0f})"
        )
    click.echo(
        f"grouped is {gain.by_clock:.2f} times as fast, {gain.by_cpu:.2f} times by CPU time "
        "(medians of the rounds)"
    )
