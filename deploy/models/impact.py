"""What another registry would do to the work that is there: the dry run, decided by the policy.

Pure. Every piece of work is decided twice on the same view of the fleet, with the registry as it is
and as it would be, each as if it were alone: what loads will be, nobody knows now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schemas.control import ModelRecord, Snapshot
from schemas.features import Features
from schemas.outcomes import Mode
from schemas.pools import Pool
from streams.policy import Decision, Policy, View

_CHECKER = "models"
"""Breaks ties between nodes; which node is none of the dry run's business."""


class Piece(NamedTuple):
    """A request that has not ended, or a conversation that is bound.

    Attributes:
        kind: `request` or `conversation`.
        place: where it stands: topic-partition@offset, or the id of the conversation's node.
        pool: where it is queued or bound; None while nobody has decided.
    """

    kind: str
    place: str
    id: str
    features: Features
    pool: str | None = None


class Effect(NamedTuple):
    """What the change means for one piece.

    Attributes:
        before: the pool that has it, or would get it with the registry as it is.
        after: the pool that would get it; None: it would be unroutable.
        why: what excludes it from `before`; without that, the rule that sends it elsewhere.
        excluded: pool -> why, with the registry as it would be.
    """

    piece: Piece
    before: str
    after: str | None
    why: str
    excluded: Mapping[str, str]


class Fleet(NamedTuple):
    """What both registries are tried on; without a snapshot only the registry counts."""

    pools: tuple[Pool, ...]
    partitions: Mapping[str, int]
    snapshot: Snapshot | None

    def view(self, models: Mapping[str, ModelRecord]) -> View:
        """Return what a router with this registry believes."""
        view = View(self.pools, _CHECKER, self.partitions)
        view.load_models(models)
        if self.snapshot is not None:
            view.mode = Mode.NORMAL
            view.load(self.snapshot, {})
        return view

    def holds(self, node: str) -> bool:
        """Return whether a conversation can still be bound to this node, as far as is known."""
        return self.snapshot is None or any(
            state.id == node and state.live for state in self.snapshot.nodes
        )


def effects(
    pieces: Iterable[Piece], policy: Policy, before: View, after: View, now_ms: int
) -> list[Effect]:
    """Return what changes, in the order of the pieces; nothing for those that it does not touch."""
    found = []
    for piece in pieces:
        was = policy.decide(piece.features, before, now_ms)
        becomes = policy.decide(piece.features, after, now_ms)
        effect = _effect(piece, was, becomes)
        if effect is not None:
            found.append(effect)
    return found


def _effect(piece: Piece, was: Decision, becomes: Decision) -> Effect | None:
    holder = piece.pool or was.pool
    if holder is None or holder in was.excluded:
        return None  # it ends, or should not be there, whatever is changed now
    # What is queued or bound stays as long as it may; what is not decided goes where rules say.
    stays = holder not in becomes.excluded if piece.pool else holder == becomes.pool
    if stays:
        return None
    why = becomes.excluded.get(holder) or f"rule `{becomes.reason.value}` sends it elsewhere"
    return Effect(piece, holder, becomes.pool, why, becomes.excluded)
