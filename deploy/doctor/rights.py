"""Whether a role may do with its topics what it must, as the broker sees this user. Pure.

What it must is declared in `schemas.access`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deploy.doctor.finding import Finding, bad, well
from schemas.access import Operation, Resource, grants
from schemas.pools import Pool
from schemas.roles import Role
from schemas.topics import TopicNames

_JUDGED = (Operation.READ, Operation.WRITE)


def judge_rights(
    role: str, names: TopicNames, pools: tuple[Pool, ...], may: Mapping[str, frozenset[str]]
) -> Iterator[Finding]:
    """Yield what a role lacks; `may` is what is allowed with each topic that exists."""
    needed = _needs(Role(role), names, pools)
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


def _needs(role: Role, names: TopicNames, pools: tuple[Pool, ...]) -> dict[str, set[str]]:
    return {
        grant.name: {operation.value for operation in grant.operations if operation in _JUDGED}
        for grant in grants(role, names, pools)
        if grant.resource is Resource.TOPIC
    }
