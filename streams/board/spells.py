"""Spells: what is there again and again, and since when without a break."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

BREAK_MS = 5_000
"""What comes back within this time was never away: numbers at a bound flicker."""


class _Spell(NamedTuple):
    begun_ms: int
    seen_ms: int


class Spells:
    """When each thing began that is there now. Pure."""

    def __init__(self) -> None:
        self._spells: dict[str, _Spell] = {}

    def saw(self, kinds: Iterable[str], now_ms: int) -> None:
        """Know that these are there now; forget what has been away for longer than a break."""
        for kind in kinds:
            self._spells[kind] = _Spell(self.begun_ms(kind, now_ms), now_ms)
        self._spells = {
            kind: spell
            for kind, spell in self._spells.items()
            if now_ms - spell.seen_ms <= BREAK_MS
        }

    def begun_ms(self, kind: str, now_ms: int) -> int:
        """Return since when it is there; now if it has just begun."""
        spell = self._spells.get(kind)
        fresh = spell is None or now_ms - spell.seen_ms > BREAK_MS
        return now_ms if spell is None or fresh else spell.begun_ms
