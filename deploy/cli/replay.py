"""`overspill replay`: decisions made again from their records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli.console import Progress
from deploy.cli.document import print_document
from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings


class Price(click.ParamType):
    """POOL=COEFFICIENT, given to the command as a pair."""

    name = "POOL=PRICE"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Return pool and price; fail with an example of what is meant."""
        pool, _, price = value.partition("=")
        try:
            coefficient = float(price)
        except ValueError:
            coefficient = 0.0
        if not (pool and 0 < coefficient < float("inf")):
            self.fail("give a pool and a number above 0, as cpu=0.05", param, ctx)
        return pool, coefficient


_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    epilog=example(
        "overspill replay",
        "overspill replay --dump decisions.jsonl.gz",
        "overspill replay --from decisions.jsonl.gz --policy static-threshold --json",
        "overspill replay --threshold 20 --prices cpu=0.05 --prices npu=0.2",
    )
)
@click.option(
    "--from", "source", type=_FILE, metavar="FILE", help="Read a dump instead of the topic."
)
@click.option("--dump", type=_FILE, metavar="FILE", help="Keep what is read; .gz is compressed.")
@click.option("--policy", "name", metavar="NAME", help="Decide by another policy.")
@click.option("--threshold", type=click.IntRange(0), help="Decide at another threshold.")
@click.option(
    "--prices", type=Price(), multiple=True, help="Another cost coefficient; may be repeated."
)
@as_json
@client_flags
def replay(
    settings: Settings,
    *,
    source: Path | None,
    dump: Path | None,
    name: str | None,
    threshold: int | None,
    prices: tuple[tuple[str, float], ...],
    as_json: bool,
) -> int:
    """Make decisions again from what their records say, and compare.

    As they are, every one must come out the same, bit for bit: the first that does not is shown
    with both sides, and the exit code is 1. By another policy, threshold or price table it says
    what would change: the share of choices, and cost and objectives with 95 % intervals, which are
    expected from the latencies and queues that the routers knew.
    """
    import asyncio

    from deploy.cli import replay_shown as shown
    from deploy.replay import run_replay
    from streams.policy import policy
    from streams.replay import Comparison, Verification

    asked = name is not None or threshold is not None or bool(prices)
    with Progress() as say:
        if asked:
            comparison = Comparison(policy(name) if name else None, threshold, dict(prices))
            asyncio.run(run_replay(settings, source, dump, comparison.take, say))
            say("drawing the intervals")
            compared = comparison.result()
        else:
            verification = Verification()
            asyncio.run(run_replay(settings, source, dump, verification.take, say))
    if asked:
        if as_json:
            print_document(shown.compared_document(compared))
        else:
            shown.print_compared(compared)
        return 0
    verified = verification.result()
    if as_json:
        print_document(shown.verified_document(verified))
    else:
        shown.print_verified(verified)
    nothing_judged = bool(verified.skipped) and not verified.decisions
    return 1 if verified.first is not None or nothing_judged else 0
