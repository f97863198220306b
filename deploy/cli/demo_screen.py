"""The demo's last screen: what happened, in words that a newcomer understands."""

from __future__ import annotations

from collections import Counter
from statistics import median

from rich.console import Console
from rich.table import Table

from deploy.cli.called import as_called
from deploy.cli.printing import text_of
from deploy.cli.reasons import in_words
from deploy.local.demo.account import COST_HOW, NOWHERE, Account, Way
from deploy.local.demo.run import Outcome
from deploy.local.demo.traffic import Kind
from schemas.outcomes import Reason


def last_screen(outcome: Outcome) -> None:
    """Print what happened to standard output."""
    console = Console(highlight=False)
    account, verdict, thresholds, took_s = outcome
    _title(console, f"What happened in {took_s:.0f} seconds")
    console.print(
        f"{verdict.asked} records were produced to one Kafka topic. A router decided which pool of "
        "machines runs each; nodes ran a small language model on them; every request got one "
        "answer, and what was no request was set aside."
    )
    _title(console, "What became of each kind")
    console.print(_kinds(account))
    _title(console, "Requests by reason and pool")
    console.print(_ways(account))
    if thresholds:
        console.print(
            "The GPU is preferred until its queue reaches the threshold, which follows the load: "
            f"here {_span(thresholds)}."
        )
    _title(console, "What the model said, alone and with each of its LoRA adapters")
    for sample in sorted(account.samples, key=lambda sample: sample.adapter or ""):
        voice = f"adapter {sample.adapter}" if sample.adapter else "no adapter"
        console.print(f"{voice}, on {_pool(account, sample.pool)}:", markup=False)
        console.print(
            f"  {text_of(sample.output)}", markup=False, no_wrap=True, overflow="ellipsis"
        )
    _cost(console, account)
    _objectives(console, account)
    _title(console, "Dead letters (records that were no requests, kept with the reason)")
    deaths = (f"{category} {count}" for category, count in sorted(account.dead_letters.items()))
    console.print(", ".join(deaths) or "none")
    if account.emulated:
        pools = " and ".join(sorted(account.emulated))
        _title(console, f"emulated: {pools}")
        console.print(
            "This machine has no such devices. Their text is true, their speed is made up, and "
            "each of their results says `emulated`."
        )
    _judgement(console, outcome)


def _kinds(account: Account) -> Table:
    table = _table("request", "sent", "went to (why)")
    for kind in Kind:
        ways = account.ways.get(kind, Counter())
        went = ", ".join(
            f"{'nowhere' if way.pool == NOWHERE else way.pool} {count} ({_why(way)})"
            for way, count in ways.most_common()
        )
        table.add_row(kind.value, str(account.sent[kind]), went)
    return table


def _why(way: Way) -> str:
    """Return the reason; of what did not run, in words too."""
    ran = way.pool != NOWHERE and way.reason != Reason.EXPIRED
    return way.reason if ran else f"{way.reason}: {in_words(way.reason)}"


def _ways(account: Account) -> Table:
    ways = account.by_way
    pools = sorted({way.pool for way in ways} - {NOWHERE})
    table = _table("reason", *pools, "nowhere", "in words")
    for reason, _ in account.by_reason.most_common():
        counts = [ways[Way(pool, reason)] for pool in (*pools, NOWHERE)]
        table.add_row(reason, *(str(count or "") for count in counts), in_words(reason))
    totals = [account.by_pool[pool] for pool in (*pools, NOWHERE)]
    table.add_row("all", *map(str, totals), "", style="bold")
    return table


def _cost(console: Console, account: Account) -> None:
    gpu_only = account.gpu_only_cost
    if gpu_only is None:
        return
    metered = account.metered_cost
    saved = (1 - metered / gpu_only) * 100
    _title(console, "Cost")
    console.print(
        f"{metered:.2f} as metered, {gpu_only:.2f} if all had run on the GPU: {abs(saved):.0f} % "
        f"{'less' if saved >= 0 else 'more'}. {COST_HOW}."
    )
    console.print(
        "(The model is tiny: the real CPU is about as fast as the made-up GPU. With a large model "
        "it is not, and cheap by the second need not be cheap by the request.)"
    )


def _objectives(console: Console, account: Account) -> None:
    _title(console, "Latency objectives met, from arrival to result")
    table = _table("request", "objective", "met", "of", "share", "median took", "of it ran")
    for kind in Kind:
        if count := account.objectives[kind]:
            met = account.met[kind]
            slo = f"{account.slo_ms[kind]:g} ms"
            took = [
                f"{median(times):.0f} ms" for times in zip(*account.took[kind], strict=True)
            ]  # in all, and of it the model ran
            share = f"{100 * met / count:.0f} %"
            table.add_row(kind.value, slo, str(met), str(count), share, *took)
    console.print(table)
    if account.met.total() < account.objectives.total():
        console.print(
            "(Missed is late, not lost: each request got its answer. What did not run waited: for "
            "a slot, for Kafka, which commits twice for a request, and for whatever else this "
            "machine does.)"
        )
    if slow := _too_slow(account):
        console.print(
            f"(Of {' and '.join(slow)} the run alone took longer than the objective: this machine "
            "is too slow or too busy for that now, whoever routes.)"
        )


def _too_slow(account: Account) -> list[str]:
    """Return the kinds whose objective not even a run without any wait would have met."""
    return [
        kind.value
        for kind in Kind
        if account.objectives[kind]
        and median(ran for _, ran in account.took[kind]) > account.slo_ms[kind]
    ]


def _judgement(console: Console, outcome: Outcome) -> None:
    verdict = outcome.verdict
    if verdict.exactly_once:
        _title(console, "Exactly once: yes")
        console.print(
            f"A fresh reader, from offset 0, found {verdict.asked} requests and one terminal "
            "record for each of them."
        )
        console.print(as_called("\nNext: `overspill up`, then send your own requests."))
        return
    _title(console, "Exactly once: NO")
    console.print(
        f"Of {verdict.asked} requests, {len(verdict.missing)} have no terminal record and "
        f"{len(verdict.repeated)} more than one; {len(verdict.strange)} records answer no request."
    )
    for origin in (*verdict.missing, *verdict.repeated, *verdict.strange)[:5]:
        console.print(f"  {origin.encode().decode()}", markup=False)


def _title(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="bold", markup=False)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for heading in others:
        is_text = " " in heading
        table.add_column(heading, justify="left" if is_text else "right")
    return table


def _pool(account: Account, pool: str) -> str:
    return f"{pool} (emulated)" if pool in account.emulated else pool


def _span(thresholds: list[int]) -> str:
    low, high = min(thresholds), max(thresholds)
    return f"{low}" if low == high else f"{low} to {high}"
