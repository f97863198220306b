"""What became of a request in the demo, in a few plain words: a reason, or that it was none."""

from __future__ import annotations

from deploy.local.demo.account import DEAD_LETTER
from schemas.reasons import IN_WORDS


def in_words(reason: str) -> str:
    """Return what a reason means."""
    return "it was no request" if reason == DEAD_LETTER else IN_WORDS.get(reason, reason)
