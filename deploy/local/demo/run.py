"""Run the demo on a stack that is ready: send, watch, judge.

The shell around `traffic` and `account`: the only part that touches Kafka and the clock.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from deploy.client.judge import Verdict, judge
from deploy.client.reader import Reader
from deploy.client.sender import Sender
from deploy.client.terminal import Record, Terminal, read_terminal
from deploy.local.demo.account import Account, Way, account_of
from deploy.local.demo.traffic import Kind, Shot, crowd, opening
from runtime.connection import connection_of
from runtime.settings import Settings
from schemas.control import Snapshot
from schemas.errors import FormatError
from schemas.headers import Origin
from schemas.message import decode

FLEET_WITHIN_S = 30.0
"""For the control plane to publish that every pool has a live node."""
LAST_WITHIN_S = 60.0
"""From the last request of a part to the end of all: a slow machine has a long backlog."""
SNAPSHOTS_BACK = 20
"""Offsets of `control` to begin before its end: the last snapshot is among them."""


class Viewer(Protocol):
    """Who is told what happens, while it does."""

    def ended(self, kind: Kind, way: Way, terminal: Terminal) -> None:
        """Learn that one request has ended."""

    def stands(self, account: Account, snapshot: Snapshot | None, undecided: int) -> None:
        """Learn how things stand; several times a second."""


class Outcome(NamedTuple):
    """What a demo found.

    Attributes:
        account: made afresh from the topics.
        verdict: whether every request ended exactly once, by a reader that saw nothing before.
        thresholds: as the control plane published them, without repetition.
        took_s: from the first request sent to the last one's end.
    """

    account: Account
    verdict: Verdict
    thresholds: list[int]
    took_s: float


class Demo:
    """One run of the demo."""

    def __init__(self, settings: Settings, viewer: Viewer) -> None:
        self._settings = settings
        self._connection = connection_of(settings)
        self._viewer = viewer
        self._account = Account()
        self._kinds: dict[Origin, Kind] = {}
        self._ends: dict[Origin, Terminal] = {}
        self._snapshot: Snapshot | None = None
        self._thresholds: list[int] = []

    async def run(self) -> Outcome:
        """Send everything, watch it end, judge."""
        names = self._settings.topics
        topics = (names.results, names.dead_letter, names.control)
        async with Reader(self._connection, topics, from_end=True, last=SNAPSHOTS_BACK) as reader:
            await self._read_until(reader, lambda: self._fleet_is_up, FLEET_WITHIN_S)
            begun_s = time.monotonic()
            run = uuid.uuid4().hex[:6]
            for part in (opening(run, time.time_ns() // 1_000_000), crowd(run)):
                sending = asyncio.ensure_future(self._send(part))
                await self._read_until(reader, sending.done, float("inf"))
                await sending
                await self._read_until(reader, lambda: not self._missing, LAST_WITHIN_S)
            took_s = time.monotonic() - begun_s
        verdict = await judge(self._connection, names)
        account = account_of(self._kinds, verdict.ends)
        return Outcome(account, verdict, self._thresholds, took_s)

    @property
    def _fleet_is_up(self) -> bool:
        if self._snapshot is None:
            return False
        live = {node.pool for node in self._snapshot.nodes if node.live}
        return live >= {pool.name for pool in self._settings.pools}

    @property
    def _missing(self) -> bool:
        return len(self._ends.keys() & self._kinds.keys()) < len(self._kinds)

    async def _send(self, part: Sequence[Shot]) -> None:
        begun_s = time.monotonic()
        async with Sender(self._connection, self._settings.topics.requests) as sender:
            sends = []
            for shot in part:
                await asyncio.sleep(begun_s + shot.at_s - time.monotonic())
                sends.append(asyncio.ensure_future(self._send_one(sender, shot)))
            await asyncio.gather(*sends)

    async def _send_one(self, sender: Sender, shot: Shot) -> None:
        self._account.sent[shot.kind] += 1
        origin = await sender.send(shot.key, shot.value)
        self._kinds[origin] = shot.kind
        if origin in self._ends:  # the answer was faster than the acknowledgement
            self._enter(shot.kind, self._ends[origin])

    async def _read_until(self, reader: Reader, done: Callable[[], bool], within_s: float) -> None:
        give_up_s = time.monotonic() + within_s
        while not done() and time.monotonic() < give_up_s:
            for record in await reader.some():
                self._take(record)
            self._viewer.stands(
                self._account, self._snapshot, undecided(self._kinds, self._snapshot)
            )

    def _take(self, record: Record) -> None:
        names = self._settings.topics
        if record.topic == names.control:
            self._hear(record)
            return
        terminal = read_terminal(record, names)
        self._ends[terminal.origin] = terminal
        kind = self._kinds.get(terminal.origin)
        if kind is not None:
            self._enter(kind, terminal)

    def _enter(self, kind: Kind, terminal: Terminal) -> None:
        self._viewer.ended(kind, self._account.end(kind, terminal), terminal)

    def _hear(self, record: Record) -> None:
        try:
            self._snapshot = decode(Snapshot, record.value or b"")
        except FormatError:
            return  # a newer control plane's, or a tombstone: the next one will do
        if self._thresholds[-1:] != [self._snapshot.threshold]:
            self._thresholds.append(self._snapshot.threshold)


def undecided(sent: Iterable[Origin], snapshot: Snapshot | None) -> int:
    """Return how many of these no router has committed, as far as the snapshot knows."""
    included = () if snapshot is None else snapshot.requests_included
    known = dict(enumerate(included))
    return sum(origin.offset >= known.get(origin.partition, 0) for origin in sent)
