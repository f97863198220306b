"""Whether a role may do with its topics what it must, as the broker sees this user. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deploy.doctor.finding import Finding, bad, well
from schemas.pools import Pool
from schemas.topics import TopicNames

ROLES = ("router", "control", "executor")

READ, WRITE = "Read", "Write"


def judge_rights(
    role: str, names: TopicNames, pools: tuple[Pool, ...], may: Mapping[str, frozenset[str]]
) -> Iterator[Finding]:
    """Yield what a role lacks; `may` is what is allowed with each topic that exists."""
    needed = _needs(role, names, pools)
    lacking = {
        topic: missing
        for topic, operations in needed.items()
        if topic in may and (missing := sorted(operations - may[topic]))
    }
    for topic, missing in lacking.items():
        yield bad(
            "rights",
            f"{role}: no {' and '.join(missing)} on {topic}",
            f"allow it with kafka-acls.sh --add --topic {topic}",
        )
    if not lacking:
        yield well("rights", f"{role}: all that it reads and writes; groups are not asked")


def _needs(role: str, names: TopicNames, pools: tuple[Pool, ...]) -> dict[str, set[str]]:
    of_pools = [topic for pool in pools for topic in names.of_pool(pool)]
    reads, writes = {
        "router": (
            [names.requests, names.retry, names.control, names.models, names.decisions],
            [*of_pools, names.results, names.dead_letter, names.decisions],
        ),
        "control": (
            [names.nodes, names.lag, names.orders, names.control, names.requests, names.retry],
            [names.nodes, names.lag, names.control],
        ),
        "executor": (
            [*of_pools, names.results, names.retry, names.dead_letter],
            [names.results, names.retry, names.dead_letter, names.nodes],
        ),
    }[role]
    needed: dict[str, set[str]] = {}
    for operation, topics in ((READ, reads), (WRITE, writes)):
        for topic in topics:
            needed.setdefault(topic, set()).add(operation)
    return needed
