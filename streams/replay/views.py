"""The views that records were decided on, made anew from the records alone.

A record has what is its own: age, own routing, mode, threshold, pools, widths. Snapshots and the
registry are stated once and referred to; records of one router must come in the order of `seq`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from schemas.control import ModelRecord, Snapshot
from schemas.decisions import DecisionsRecord
from schemas.errors import FormatError
from schemas.message import decode
from schemas.outcomes import Mode
from schemas.pools import Pool
from schemas.registry import unpack
from streams.policy import View

SNAPSHOTS_KEPT = 1000
"""Of all routers together: each refers to the last few it has heard."""

OLD = "written by a release whose records do not say enough"
NO_SNAPSHOT = "their snapshot was stated before the first record that is read"
NO_REGISTRY = "their model registry is not stated in what is read"
UNREADABLE = "they state a snapshot or a registry that does not read"

_Made = tuple[str, tuple[Pool, ...], tuple[tuple[str, int], ...]]


class Views:
    """Remembers what records have stated, and makes the view of the next one.

    Args:
        prices: cost coefficients by pool that replace what was configured.
    """

    def __init__(self, prices: Mapping[str, float] | None = None) -> None:
        self._prices = prices or {}
        self._views: dict[_Made, View] = {}
        self._bodies: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._snapshots: dict[str, tuple[tuple[int, int], Snapshot]] = {}
        self._registries: dict[int, Mapping[str, ModelRecord]] = {}

    def of(self, record: DecisionsRecord) -> View | str:
        """Return the view that a record was decided on, or why it cannot be made."""
        inputs = record.view
        try:
            self._learn(record)
            if not inputs.pools:
                return OLD
            models = self._registries.get(inputs.registry)
            if models is None:
                return NO_REGISTRY
            view = self._view(record)
            if inputs.snapshot is not None:
                snapshot = self._snapshot(record.router, inputs.snapshot)
                if snapshot is None:
                    return NO_SNAPSHOT
                own = {(pool, partition): count for pool, partition, count in inputs.own}
                view.load(snapshot, own, inputs.age_ms)
        except FormatError:
            return UNREADABLE
        if view.models is not models:
            view.load_models(models)
        view.mode, view.threshold = Mode(record.mode), record.threshold
        return view

    def _learn(self, record: DecisionsRecord) -> None:
        inputs = record.view
        if inputs.body is not None and inputs.snapshot is not None:
            self._bodies[inputs.snapshot] = inputs.body
            if len(self._bodies) > SNAPSHOTS_KEPT:
                self._bodies.popitem(last=False)
        if inputs.registered is not None and inputs.registry not in self._registries:
            digest, models = unpack(inputs.registered)
            self._registries[digest] = models

    def _view(self, record: DecisionsRecord) -> View:
        inputs = record.view
        made = record.router, inputs.pools, inputs.widths
        view = self._views.get(made)
        if view is None:
            pools = tuple(
                pool.model_copy(
                    update={"cost_coefficient": self._prices.get(pool.name, pool.cost_coefficient)}
                )
                for pool in inputs.pools
            )
            view = self._views[made] = View(pools, record.router, dict(inputs.widths))
        return view

    def _snapshot(self, router: str, wanted: tuple[int, int]) -> Snapshot | None:
        last = self._snapshots.get(router)
        if last is not None and last[0] == wanted:
            return last[1]
        body = self._bodies.get(wanted)
        if body is None:
            return None
        snapshot = decode(Snapshot, body)
        self._snapshots[router] = wanted, snapshot
        return snapshot
