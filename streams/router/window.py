"""The duplicate window of one input partition, and the conversations bound there.

Pure. Both are rebuilt from `decisions` when a partition changes hands, so nothing here may depend
on what only this process has seen.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping

Identity = tuple[str, int, int]
"""(request id, attempt, redrive generation)."""

Binding = tuple[str, str]
"""(pool, node) that holds a conversation's cache."""

WINDOW_REQUESTS = 20_000
WINDOW_MS = 10 * 60 * 1000
"""An id counts as seen while it is among the last 20,000 of its partition and ten minutes old."""
BINDINGS_MAX = 20_000
"""Conversations of one partition; the one longest unused goes first."""


class DuplicateWindow:
    """Remembers which requests a partition has decided."""

    def __init__(self) -> None:
        self._seen: dict[Identity, tuple[int, int]] = {}
        self._order: deque[Identity] = deque()

    def claim(self, identity: Identity, digest: int, now_ms: int) -> int | None:
        """Remember a request to be decided now, unless it was decided before.

        Returns the value digest under which it was; None if it was not, or too long ago.
        """
        seen = self._seen.get(identity)
        if seen is not None:
            if now_ms - seen[1] <= WINDOW_MS:
                return seen[0]
            self._order.remove(identity)  # it begins anew
        self._seen[identity] = digest, now_ms
        self._order.append(identity)
        return None

    def forget_last(self, count: int) -> None:
        """Take back the last additions: their transaction was not committed."""
        for _ in range(count):
            del self._seen[self._order.pop()]

    def forget(self, identity: Identity) -> None:
        """Take back one addition, wherever it stands: the request was not decided after all."""
        del self._seen[identity]
        self._order.remove(identity)

    def trim(self, now_ms: int) -> None:
        """Drop what is out of the window; after a commit only, lest something be taken back."""
        while self._order and (
            len(self._order) > WINDOW_REQUESTS or now_ms - self._seen[self._order[0]][1] > WINDOW_MS
        ):
            del self._seen[self._order.popleft()]

    def __len__(self) -> int:
        return len(self._order)


class Bindings:
    """Which node holds each conversation of a partition, in order of use."""

    def __init__(self) -> None:
        self._bound: OrderedDict[str, Binding] = OrderedDict()

    @property
    def by_conversation(self) -> Mapping[str, Binding]:
        """Return what each conversation is bound to; a live view."""
        return self._bound

    def bind(self, conversation: str, binding: Binding, *, settles: bool) -> Binding | None:
        """Note which node serves a conversation's turn, and return the binding before.

        `settles`: rule 3 has held it there, or has let it go. A turn that goes elsewhere without
        either is a guest there, and binds only a conversation that is bound nowhere.
        """
        before = self._bound.get(conversation)
        if before is None or settles:
            self._bound[conversation] = binding
        self._bound.move_to_end(conversation)
        return before

    def take_back(self, conversation: str, before: Binding | None) -> None:
        """Undo a `bind` whose transaction was not committed."""
        if before is None:
            self._bound.pop(conversation, None)
        else:
            self._bound[conversation] = before

    def trim(self) -> None:
        """Drop what is over the bound; after a commit only, lest something be taken back."""
        while len(self._bound) > BINDINGS_MAX:
            self._bound.popitem(last=False)
