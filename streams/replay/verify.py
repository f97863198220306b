"""Does the same policy decide the same again? All of it, to the last bit, or where not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from schemas.decisions import DecisionsRecord
from schemas.features import Features
from streams.replay.choices import Choice, choice_of, decide_again, known_policy, recorded
from streams.replay.views import Views


class Mismatch(NamedTuple):
    """A decision that came out otherwise, with all that tells which one it is."""

    id: str
    router: str
    sequence: int
    partition: int
    source: int
    offset: int
    now_ms: int
    recorded: Choice
    replayed: Choice
    features: Features


class Verified(NamedTuple):
    """What was found.

    Attributes:
        decisions: made again; of them `same` came out the same.
        routers: how many have written them.
        skipped: decisions that could not be made again, by reason.
        first: the first that came out otherwise.
    """

    records: int
    decisions: int
    same: int
    routers: int
    skipped: Mapping[str, int]
    first: Mismatch | None


class Verification:
    """Takes records in order and compares each decision with the one its own policy makes again."""

    def __init__(self) -> None:
        self._views = Views()
        self._records = self._decisions = self._same = 0
        self._routers: set[str] = set()
        self._skipped: Counter[str] = Counter()
        self._first: Mismatch | None = None

    def take(self, record: DecisionsRecord) -> None:
        """Decide a record again."""
        self._records += 1
        self._routers.add(record.router)
        view = self._views.of(record)
        policy = known_policy(record.policy)
        if policy is None or isinstance(view, str):
            why = view if isinstance(view, str) else f"policy {record.policy} is not known here"
            self._skipped[why] += sum(row.features is not None for row in record.rows)
            return
        for again in decide_again(policy, record, view):
            self._decisions += 1
            before, after = recorded(again.row), choice_of(again.after)
            if before == after:
                self._same += 1
            elif self._first is None:
                self._first = Mismatch(
                    again.row.id,
                    record.router,
                    record.sequence,
                    record.partition,
                    again.row.source,
                    again.row.offset,
                    record.now_ms,
                    before,
                    after,
                    again.features,
                )

    def result(self) -> Verified:
        """Return what was found so far."""
        return Verified(
            self._records,
            self._decisions,
            self._same,
            len(self._routers),
            dict(+self._skipped),
            self._first,
        )
