"""A router in virtual time: batches, the policy's own view, bindings, and what it has routed since.

Decide, count and advance are the router's own objects (`Outlook`, `Deltas`, `Bindings`); only Kafka
is missing, and is a delay here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from lab.simulator.clock import Clock
from lab.simulator.fleet import Delays
from lab.simulator.reading import Told
from lab.simulator.workload import MODELS, Asked
from schemas.outcomes import Reason
from schemas.pools import Pool
from streams.policy import Decision, Policy, View
from streams.router.bindings import Bindings
from streams.router.deltas import Delta, PoolPartition
from streams.router.outlook import Outlook
from streams.router.queue import RECORDS_MAX

Routed = list[tuple[Asked, Decision]]
"""What one transaction commits."""


class Router:
    """Decides what has come, a batch at a time.

    Attributes:
        committed: requests whose decision is committed: its offset.
    """

    def __init__(
        self,
        policy: Policy,
        pools: tuple[Pool, ...],
        widths: dict[str, int],
        delays: Delays,
        clock: Clock,
        news: Callable[[float], tuple[Told, float] | None],
        commit: Callable[[Routed, float], None],
    ) -> None:
        """Begin without work; `news` gives what control has said, `commit` takes what is routed."""
        self.committed = 0
        self._policy, self._delays, self._clock = policy, delays, clock
        self._news, self._commit = news, commit
        self._view = View(pools, "simulator", widths)
        self._view.load_models(MODELS)
        self._outlook = Outlook(self._view)
        self._bindings = Bindings()
        self._waiting: deque[Asked] = deque()
        self._in_transaction = False
        self._decided = 0

    def take(self, asked: Asked, now_ms: float) -> None:
        """Take a request as it comes."""
        self._waiting.append(asked)
        if not self._in_transaction:
            self._decide(now_ms)

    def _decide(self, now_ms: float) -> None:
        now_s, outlook, view = now_ms / 1000, self._outlook, self._view
        heard = self._news(now_ms)
        if heard is not None:
            snapshot, known_at_ms = heard
            outlook.hear(snapshot, b"", known_at_ms / 1000)
        outlook.look(now_s)
        view.bindings = self._bindings.by_conversation
        batch: Routed = []
        routed: dict[PoolPartition, int] = {}
        waiting, decide, at_ms = self._waiting, self._policy.decide, int(now_ms)
        while waiting and len(batch) < RECORDS_MAX:
            asked = waiting.popleft()
            decision = decide(asked.features, view, at_ms)
            view.add(decision)
            batch.append((asked, decision))
            if decision.pool is not None:
                place = decision.pool, decision.partition
                routed[place] = routed.get(place, 0) + 1
                if asked.features.conversation:
                    self._bind(asked.features.conversation, decision)
        self._decided += len(batch)
        outlook.deltas.add(Delta(0, (self._decided, -1), routed, now_s))
        self._in_transaction = True
        self._clock.at(now_ms + self._delays.routing_ms, self._commit_batch, batch)

    def _commit_batch(self, batch: Routed, now_ms: float) -> None:
        self.committed += len(batch)
        self._bindings.trim()
        self._commit(batch, now_ms)
        self._in_transaction = False
        if self._waiting:
            self._decide(now_ms)

    def _bind(self, conversation: str, decision: Decision) -> None:
        if decision.pool and decision.node:
            settles = decision.reason is Reason.STICKY or decision.released != ""
            self._bindings.bind(conversation, (decision.pool, decision.node), settles=settles)
