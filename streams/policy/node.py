"""Node: one live node as a router believes it, its load and how long what comes now waits there.

It hears what the snapshot says and carries the load that its pool estimates (`pool.py`); it does
not know which records are on its partitions.
"""

from __future__ import annotations

import operator
from functools import reduce
from math import inf

from streams.policy.told import NodeTold

_MS_PER_S = 1000
_SPEED_UP = 2.0
"""A node with a queue is taken to finish up to twice as fast as it did over the last seconds: from
half load on its slots are the limit then, and below half load there is no queue to misjudge."""


class Node:
    """A live node: what lasts of it, what it said last (`hear`), its load as estimated (`carry`).

    Attributes:
        unfinished: estimated records on the partitions it owns, as finished at its usual rate.
        backlog: the same, as finished at its busy rate.
        queued: those that have no slot.
        owned: partitions it owns.
        partitions: those it owns and can work on, in this router's order of preference.
        takes_work: not draining, and owns a partition it can work on.
        free_slots: slots - max(unfinished, busy), at least 0; 0 while a partition is blocked.
        wait_ms: how long a record sent to it now waits for a slot, about.
        order: of two nodes the smaller one is the better choice.
        rank: breaks ties; another one for each router, so that routers do not herd.
        busy_rate: records a second that it is taken to finish while it has a queue.
        passed: of what it has queued, records that work of each class may pass, by class.
        said: what the snapshot says of it.
        lasting: what of that does not change from report to report.
        claimed: partitions that it says are its own.
        slowness: how many times as long as on its compute type's other nodes runs take.
    """

    __slots__ = (
        "_blocked",
        "_full_rate",
        "backlog",
        "busy",
        "busy_rate",
        "claimed",
        "draining",
        "free_slots",
        "id",
        "lasting",
        "latency_ms",
        "models",
        "order",
        "owned",
        "partitions",
        "passed",
        "queued",
        "rank",
        "said",
        "slots",
        "slowness",
        "takes_work",
        "unfinished",
        "wait_ms",
    )

    def __init__(
        self,
        state: NodeTold,
        owned: list[int],
        partitions: tuple[int, ...],
        rank: int,
    ) -> None:
        self.id = state.id
        self.slots = state.slots
        self.models = state.models
        self.draining = state.draining
        self.lasting = lasting(state)
        self.claimed, self.owned = tuple(owned), owned
        self.partitions, self.rank = partitions, rank
        self.takes_work = bool(partitions) and not state.draining
        self._blocked = bool(state.blocked) or not partitions
        self.hear(state)

    def hear(self, state: NodeTold) -> None:
        """Take what changes from report to report."""
        self.said = state
        self.busy = state.busy
        self.slowness = state.slowness
        self.latency_ms = latency_ms = state.latency_ms
        normal, due, patient = state.queued
        self.passed = (normal + due + patient, due + patient, patient, 0)
        self._full_rate = self.slots / latency_ms * _MS_PER_S if latency_ms > 0 else inf

    def pace(self, finish_rate: float) -> None:
        """Take how many records a second it has finished lately."""
        self.busy_rate = min(finish_rate * _SPEED_UP, self._full_rate)

    def serves(self, model: str) -> bool:
        """Return whether it runs the model: a node that lists none runs any."""
        return not self.models or model in self.models

    def carry(self, unfinished: float, backlog: float) -> None:
        """Set its load in records, as finished at its usual rate, and at its busy rate.

        The second one tells queue from traffic: what waits, waits because all slots are busy, and
        busy slots finish more than the mean of the last seconds says. By that mean alone every
        short burst on a healthy node would look like a queue (docs/adr/0011).
        """
        self.unfinished = unfinished
        self.backlog = backlog
        # Comparisons, as calls of min() and max() cost twice as much, for every record routed.
        slots, busy = self.slots, self.busy
        queued = (backlog if backlog < unfinished else unfinished) - slots  # noqa: FURB136  see above
        self.queued = queued if queued > 0.0 else 0.0  # noqa: FURB136  see above
        load = unfinished if unfinished > busy else busy  # noqa: FURB136  see above
        self.free_slots = slots - load if load < slots and not self._blocked else 0
        if slots > 0:
            ahead = load - slots + 1
            self.wait_ms = wait_ms = ahead / slots * self.latency_ms if ahead > 0 else 0.0
            self.order = (wait_ms, load / slots)
        else:
            self.wait_ms = inf
            self.order = (inf, load)


def lasting(n: NodeTold) -> tuple[object, ...]:
    """Return what of a node does not change from report to report."""
    return n.id, n.pool, n.live, n.draining, n.slots, n.partitions, n.blocked, n.models, n.adapters


def mean_latency_ms(nodes: list[Node]) -> float:
    """Return the mean of the nodes' mean latencies; 0 without any.

    Added up one by one: `sum` rounds differently from Python 3.12 on, and a replay must not.
    """
    if not nodes:
        return 0.0
    return reduce(operator.add, [node.latency_ms for node in nodes]) / len(nodes)
