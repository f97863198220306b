"""`overspill bench rebalance` and `soak`: bounds that only time and many requests show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.console import Progress
from deploy.cli.document import print_document
from deploy.cli.flags import as_json
from deploy.cli.help import example
from deploy.cli.own_broker import broker_flag, broker_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.benches.rebalance import Finding
    from lab.benches.soak import Soak


@click.command(epilog=example("overspill bench rebalance", "overspill bench rebalance --rate 50"))
@click.option(
    "--rate", type=click.FloatRange(10), default=100.0, show_default=True, help="Requests a second."
)
@broker_flag
@as_json
def rebalance(*, rate: float, bootstrap_servers: str | None, as_json: bool) -> None:
    """Measure how long results stay away when routers and nodes come, go and die; 4 minutes.

    Judged by a consumer of `results`: the longest time in which a partition had work and gave none.
    """
    from lab.benches.rebalance import bench_rebalance, document_of
    from runtime.process import run_loop

    with Progress() as say, broker_for(bootstrap_servers, say) as servers:
        findings = run_loop(lambda: bench_rebalance(servers, rate, say))
    if as_json:
        print_document(document_of(findings))
    else:
        _print_rebalance(findings)


@click.command(epilog=example("overspill bench soak", "overspill bench soak --requests 200000"))
@click.option(
    "--requests",
    type=click.IntRange(1000),
    default=2_000_000,
    show_default=True,
    help="The growth is fitted from minute 3 on: fewer may end before.",
)
@broker_flag
@as_json
def soak(*, requests: int, bootstrap_servers: str | None, as_json: bool) -> None:
    """Let millions of small requests through and see whether a role's memory grows (Linux).

    A quarter of an hour, and 4 GB of disk for the broker while it runs.
    """
    from lab.benches.soak import bench_soak, document_of
    from runtime.process import run_loop

    with Progress() as say, broker_for(bootstrap_servers, say) as servers:
        found = run_loop(lambda: bench_soak(servers, requests, say))
    if as_json:
        print_document(document_of(found))
    else:
        _print_soak(found)


def _print_rebalance(findings: Sequence[Finding]) -> None:
    from deploy.cli.tables import console, table

    columns = table(
        ("what happened",),
        ("gap: its partitions", "gap: the others", "slowest request of the others", "bound"),
    )
    for finding in findings:
        numbers = (finding.moved_s, finding.stayed_s, finding.slowest_s, finding.bound_s)
        columns.add_row(finding.what, *("-" if n is None else f"{n:.2f} s" for n in numbers))
    console().print(columns)


def _print_soak(found: Soak) -> None:
    click.echo(
        f"{found.requests:,} requests in {found.seconds:,.0f} s, {found.per_s:,.0f}/s; "
        f"{found.dead:,} of them broken on purpose and now dead letters"
    )
    for role, growth in found.growth.items():
        a_minute = growth.per_minute_mb
        said = "too short to say" if a_minute is None else f"{a_minute:+.2f} MB a minute"
        click.echo(
            f"  {role}: {growth.last_mb:.0f} MB, most {growth.most_mb:.0f}; {said}; "
            f"{found.cpu_us[role]:.0f} us CPU a request"
        )
