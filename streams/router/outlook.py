"""What this router believes now: the last snapshot, its age, its own routing beyond it.

One object a router, shared by its lanes; `look` makes the policy's view for one batch and says from
what, so that the batch can be decided again from its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from schemas.decisions import ViewInputs
from schemas.outcomes import Mode
from schemas.registry import PACKED_BYTES_MAX, pack
from streams.policy import View
from streams.policy.told import SnapshotTold
from streams.registry import Registry
from streams.router.deltas import Deltas

STALE_AFTER_S = 2.0
"""Four publishing intervals without a newer snapshot: the control plane is away."""
BLIND_AFTER_S = 30.0
"""Counts this old say nothing about queues any more."""
REGISTRY_AGAIN_S = 60.0
"""Decisions state the registry anew so often: who reads them from the middle soon knows it."""


def mode_at(age_s: float | None) -> Mode:
    """Return how much a snapshot of this age tells; None: there is none."""
    if age_s is None or age_s >= BLIND_AFTER_S:
        return Mode.BLIND
    return Mode.STALE if age_s >= STALE_AFTER_S else Mode.NORMAL


class _Heard(NamedTuple):
    snapshot: SnapshotTold
    body: bytes
    at_s: float
    lag_ms: float


class Outlook:
    """The router's knowledge; all times are seconds of one monotonic clock.

    Attributes:
        models_revision: of the model registry in use.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.deltas = Deltas()
        self.models_revision = 0
        self._registry, self._registered = pack({})
        self._registered_at_s = -inf
        self._heard: _Heard | None = None
        self._recorded: tuple[int, int] | None = None
        self._made_from: tuple[tuple[int, int], int] | None = None
        self._widths = view.widths()

    def hear(self, snapshot: SnapshotTold, body: bytes, now_s: float) -> None:
        """Take a snapshot as read from `control`, unless it is older than the one in use."""
        if self._heard is not None and _order(snapshot) <= _order(self._heard.snapshot):
            return
        lag_ms = float(max(0, snapshot.published_at_ms - snapshot.probed_at_ms))
        self._heard = _Heard(snapshot, body, now_s, lag_ms)

    def learn(self, registry: Registry) -> None:
        """Take the model registry, whole: every change of it counts at once or not at all."""
        self.models_revision = registry.revision
        self.view.load_models(registry.models)
        before, (self._registry, self._registered) = self._registry, pack(registry.models)
        if before != self._registry:
            self._registered_at_s = -inf

    def widen(self, partitions: Mapping[str, int]) -> None:
        """Take note that pools have so many partitions now."""
        self.view.widen(partitions)
        self._widths = self.view.widths()
        self._made_from = None

    def mode(self, now_s: float) -> Mode:
        """Return how much is known."""
        return mode_at(self.age_s(now_s))

    def age_s(self, now_s: float) -> float | None:
        """Return the age of the snapshot in use, None if none was heard."""
        return None if self._heard is None else now_s - self._heard.at_s

    def unready(self, now_s: float) -> str | None:
        """Return what is wrong with the signals; None while they are fresh."""
        mode, age_s = self.mode(now_s), self.age_s(now_s)
        if mode is Mode.NORMAL:
            return None
        if age_s is None:
            return f"{mode.value}: no snapshot from the control plane"
        return f"{mode.value}: the last snapshot came {age_s:.0f} s ago"

    def look(self, now_s: float) -> ViewInputs:
        """Make the view for a batch decided now, and return what it was made from."""
        mode = self.mode(now_s)
        self.view.mode = mode
        if self._heard is None or mode is Mode.BLIND:
            return self._made_of(None, 0.0, (), None, now_s)
        snapshot, body, at_s, lag_ms = self._heard
        order = _order(snapshot)
        own = self.deltas.beyond(snapshot, now_s)
        age_ms = lag_ms + (now_s - at_s) * 1000
        made_from = order, self.deltas.revision
        if made_from != self._made_from:  # else it has what was routed since, decision by decision
            self.view.load(snapshot, own, age_ms)
            self._made_from = made_from
        else:
            self.view.advance(age_ms)
        beyond = tuple([(*place, records) for place, records in sorted(own.items())])
        return self._made_of(
            order, age_ms, beyond, None if self._recorded == order else body, now_s
        )

    def _made_of(
        self,
        snapshot: tuple[int, int] | None,
        age_ms: float,
        own: tuple[tuple[str, int, int], ...],
        body: bytes | None,
        now_s: float,
    ) -> ViewInputs:
        return ViewInputs(
            snapshot,
            age_ms,
            own,
            body,
            self.models_revision,
            self._widths,
            self.view.configured,
            self._registry,
            self._to_state(now_s),
        )

    def recorded(self, inputs: ViewInputs, at_s: float) -> None:
        """Note what a committed batch of that time carries, so that later ones need not."""
        if inputs.body is not None:
            self._recorded = inputs.snapshot
        if inputs.registered is not None and inputs.registry == self._registry:
            self._registered_at_s = at_s

    def _to_state(self, now_s: float) -> bytes | None:
        """Return the registry if it is time to state it, and if it fits."""
        stated = now_s - self._registered_at_s < REGISTRY_AGAIN_S
        return None if stated or len(self._registered) > PACKED_BYTES_MAX else self._registered


def _order(snapshot: SnapshotTold) -> tuple[int, int]:
    return snapshot.generation, snapshot.number
