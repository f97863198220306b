"""How long results stay away when a router or a node comes, goes, or is killed, under steady load.

The product's own processes on a real broker. One router and one node stay; a second one of each is
started, stopped and killed beside them. What counts is what a consumer of `results` sees: per
partition of `requests` (routers) or of the pool (nodes) the longest time in which work waited and
no result came, apart for the partitions that the member had and for those that stayed.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from aiokafka.structs import TopicPartition

from lab.instruments.gaps import Ending, longest_gap_s
from lab.instruments.processes import Fleet, Role, fleet
from lab.instruments.run_settings import own_settings
from lab.instruments.steady_load import CALM_FOR_S, Seen, SteadyLoad, steady_load
from runtime.connection import connection_of
from runtime.kafka.connection import Connection
from runtime.kafka.membership import HEARTBEAT_S, SESSION_S
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan
from runtime.kafka.topics import create_topics
from runtime.settings import Settings
from schemas.decisions import decode_decisions
from schemas.pools import GPU
from schemas.topics import EMBEDDED_PARTITIONS, catalogue

PARTITIONS = EMBEDDED_PARTITIONS
SLOTS, RUN_MS = 16, 20
ORDERLY_BOUND_S = 1.0
DEATH_BOUND_S = SESSION_S + HEARTBEAT_S + 2.0
STOP_TRIES = 60
"""A transaction is open for some 10 ms; at rest is a member most of the time."""
PINNED_FOR_S = 0.1
"""Transactions of others end within this; one that is open still belongs to who was stopped."""


class Change(NamedTuple):
    """Something done to a member, from its beginning until the system was calm; epoch seconds.

    Attributes:
        identities: by which decisions or results name the member.
    """

    what: str
    role: str
    identities: frozenset[str]
    begin_s: float
    end_s: float
    bound_s: float | None


@dataclass(frozen=True)
class Finding:
    """What a consumer saw of one change.

    Attributes:
        what: was done.
        moved_s: longest gap of the partitions that the member had or got; None without any.
        stayed_s: longest gap of the others.
        slowest_s: longest time from sending to its result of a request that no member of the role
            had but those that stayed: what a transaction left open holds up of others' work.
        bound_s: of them all; None where a process's own start counts.
    """

    what: str
    moved_s: float | None
    stayed_s: float | None
    slowest_s: float | None
    bound_s: float | None


def document_of(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the findings as a JSON document."""
    return [asdict(finding) for finding in findings]


async def bench_rebalance(
    bootstrap_servers: str, rate: float, progress: Callable[[str], None]
) -> list[Finding]:
    """Do everything to a second router and then to a second node; return what was seen."""
    settings = own_settings(bootstrap_servers)
    connection = connection_of(settings)
    await create_topics(connection, catalogue(settings.topics, settings.pools, PARTITIONS))
    with fleet() as started:
        bench = _Bench(settings, connection, started, progress)
        progress("starting control, a router and a node")
        for role in ("control", "router", "node"):
            await bench.start(role, "a").until_ready()
        async with steady_load(settings, connection, partitions=PARTITIONS, rate=rate) as load:
            await load.calm()
            changes = [
                change for role in ("router", "node") for change in await bench.disturb(role, load)
            ]
    progress("reading who decided what")
    deciders = await _deciders(settings, connection)
    return [_finding(change, load.seen, deciders) for change in changes]


class _Bench:
    """A fleet to which things are done."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        started: Fleet,
        progress: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._fleet = started
        self._progress = progress
        self._settings = settings
        self._touched = {  # where transactions of the role's members leave records
            "router": settings.topics.pool(GPU),
            "node": settings.topics.results,
        }

    def start(self, role: str, name: str, *more: str) -> Role:
        """Start a member of a role."""
        settings = self._settings
        command = {
            "control": ["control"],
            "router": ["router"],
            "node": [
                "executor", f"--pool={GPU}", "--backend=emulated", f"--node-id=node-{name}",
                f"--slots={SLOTS}", f"--profile=fixed:{RUN_MS}",
            ],
        }[role]  # fmt: skip
        servers = settings.kafka.bootstrap_servers
        common = ["--bootstrap-servers", servers, f"--set=prefix={settings.prefix}", *more]
        return self._fleet.start([*command, *common])

    async def disturb(self, role: str, load: SteadyLoad) -> list[Change]:
        """Do everything to a second member of the role, one thing after the other."""
        changes: list[Change] = []

        def noted(what: str, begin_s: float, bound_s: float | None, *members: Role) -> None:
            names = (_identity(role, member) for member in members)
            changes.append(
                Change(f"{role} {what}", role, frozenset(names), begin_s, time.time(), bound_s)
            )

        self._progress(f"a second {role} joins")
        begin_s = time.time()
        member = self.start(role, "b")
        await member.until_ready()
        await load.calm()
        noted("joins", begin_s, ORDERLY_BOUND_S, member)

        self._progress("it is asked to stop")
        begin_s = time.time()
        member.ask_to_stop()
        await member.until_ended()
        await load.calm()
        noted("stops in order", begin_s, ORDERLY_BOUND_S, member)

        member = self.start(role, "b")
        await member.until_ready()
        await load.calm()
        self._progress("one that has joined is killed in a transaction")
        begin_s = await self._killed(role, member)
        await load.calm()
        noted("killed -9", begin_s, DEATH_BOUND_S, member)

        static = f"--set=kafka.instance_id={role}-b"
        member = self.start(role, "b", static)
        await member.until_ready()
        await load.calm()
        self._progress("a static one is killed and started again")
        begin_s = await self._killed(role, member)
        again = self.start(role, "b", static)
        await again.until_ready()
        await load.calm()
        noted("killed -9, static, started again", begin_s, None, member, again)

        self._progress("it is asked to stop and started again")
        begin_s = time.time()
        again.ask_to_stop()
        await again.until_ended()
        last = self.start(role, "b", static)
        await last.until_ready()
        await load.calm()
        noted("stops, static, started again", begin_s, None, again, last)

        last.ask_to_stop()  # not judged: a static member's partitions wait for its return
        await last.until_ended()
        await asyncio.sleep(DEATH_BOUND_S)
        await load.calm()
        return changes

    async def _killed(self, role: str, member: Role) -> float:
        """Kill a member in the middle of a transaction; return when it stopped to work."""
        places = [TopicPartition(self._touched[role], n) for n in range(PARTITIONS)]
        draw = random.Random(1)  # noqa: S311  nothing is secret
        async with OffsetReader(self._connection) as offsets:
            for _ in range(STOP_TRIES):
                begin_s = time.time()
                member.halt()
                before = await offsets.end(places)
                await asyncio.sleep(PINNED_FOR_S)
                stable, end = await offsets.end(places), await offsets.end(places, stable=False)
                if any(before[tp] == stable[tp] < end[tp] for tp in places):
                    break
                member.go_on()
                await asyncio.sleep(draw.uniform(0.05, 0.1))
            else:
                self._progress("  it had no transaction open")
                begin_s = time.time()
        member.kill()
        return begin_s


def _identity(role: str, member: Role) -> str:
    return "node-b" if role == "node" else f"{socket.gethostname()}-{member.pid}"


async def _deciders(settings: Settings, connection: Connection) -> dict[str, frozenset[int]]:
    """Return the partitions of `requests` that each router process has decided for."""
    places = [TopicPartition(settings.topics.decisions, n) for n in range(PARTITIONS)]
    async with OffsetReader(connection) as offsets:
        ends = await offsets.end(places)
    found: dict[str, set[int]] = defaultdict(set)
    for place in places:
        async for record in scan(connection, place, 0, ends[place]):
            found[decode_decisions(record.value or b"").router].add(place.partition)
    return {router: frozenset(partitions) for router, partitions in found.items()}


def _finding(change: Change, seen: Iterable[Seen], deciders: dict[str, frozenset[int]]) -> Finding:
    """Return what was seen of a change; the system was calm before it and is after it."""
    endings: dict[int, list[Ending]] = defaultdict(list)
    slowest_s: dict[int, float] = defaultdict(float)
    had = set().union(*(deciders.get(name, frozenset()) for name in change.identities))
    for one in seen:
        routed = change.role == "router"
        place, since_s = (one.origin, one.sent_s) if routed else (one.pool, one.decided_s)
        endings[place].append(Ending(since_s, one.seen_s))
        if change.begin_s - CALM_FOR_S <= one.seen_s <= change.end_s:
            slowest_s[place] = max(slowest_s[place], one.seen_s - one.sent_s)
            if one.node in change.identities:
                had.add(place)
    gaps: dict[bool, list[float]] = {True: [], False: []}
    for place, of_it in endings.items():
        gap_s = longest_gap_s(of_it, change.begin_s, change.end_s)
        if gap_s is not None:
            gaps[place in had].append(gap_s)
    return Finding(
        change.what,
        max(gaps[True], default=None),
        max(gaps[False], default=None),
        max((slow_s for place, slow_s in slowest_s.items() if place not in had), default=None),
        change.bound_s,
    )
