"""The conversations bound in one input partition, and how `decisions` remember them.

Pure. A successor reads back only so many decisions, and a conversation may pause for longer: so
each record also states a few bindings anew, all of them in turn (docs/adr/0068).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from math import ceil

from streams.router.window import WINDOW_MS, WINDOW_REQUESTS

Binding = tuple[str, str]
"""(pool, node) that holds a conversation's cache."""
Stated = tuple[str, str, str]
"""(conversation, pool, node) in a decisions record."""

BINDINGS_MAX = 20_000
"""Conversations of one partition; the one longest unused goes first."""
ROUND_ROWS = WINDOW_REQUESTS // 2
ROUND_MS = WINDOW_MS // 2
"""All bindings are stated anew within so many rows and so much time: one that is made while a round
goes on is stated by the end of the next, which is as far as a successor reads back."""
STATED_BYTES_MAX = 128 * 1024
"""In one record, which takes 1 MiB with its rows and a snapshot: some 1,800 bindings."""


class Bindings:
    """Which node holds each conversation of a partition, in order of use."""

    def __init__(self) -> None:
        self._bound: OrderedDict[str, Binding] = OrderedDict()
        self._to_state: list[str] = []
        self._stated_ms: int | None = None

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

    def state(self, rows: int, now_ms: int) -> list[Stated]:
        """Return the bindings that the next record states, given the rows it has."""
        if not self._bound:
            return []
        passed_ms = 0 if self._stated_ms is None else now_ms - self._stated_ms
        self._stated_ms = now_ms
        share = min(1.0, max(rows / ROUND_ROWS, passed_ms / ROUND_MS))
        stated: list[Stated] = []
        size = 0
        for _ in range(ceil(len(self._bound) * share)):
            if not self._to_state:
                self._to_state = list(reversed(self._bound))  # those longest unused go first
            conversation = self._to_state.pop()
            binding = self._bound.get(conversation)
            if binding is not None:  # else it has been dropped meanwhile
                stated.append((conversation, *binding))
                size += len(conversation.encode()) + len(binding[0]) + len(binding[1])
                if size >= STATED_BYTES_MAX:
                    break
        return stated

    def unstated(self) -> None:
        """Begin a round anew: the record that stated some was not committed."""
        self._to_state = []

    def learn(self, stated: Iterable[Stated], now_ms: int) -> None:
        """Take the bindings that a record of this time states.

        One that is not known yet was in use before all that are.
        """
        for conversation, pool, node in stated:
            known = conversation in self._bound
            self._bound[conversation] = pool, node
            if not known:
                self._bound.move_to_end(conversation, last=False)
        self._stated_ms = now_ms
