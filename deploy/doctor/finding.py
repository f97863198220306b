"""One finding: what was looked at, how it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from schemas.errors import BackendUnavailable, BrokerUnreachable, OverspillError, UsageError

EXIT_CODES = tuple(
    kind.exit_code for kind in (BrokerUnreachable, BackendUnavailable, UsageError, OverspillError)
)
"""Of several the first one here: nothing works without a broker, no node without its backend."""


class Grade(str, Enum):
    """How bad it is."""

    WELL = "well"
    ODD = "odd"
    """It works, but not as one would want."""
    BAD = "bad"


class Finding(NamedTuple):
    """What was found.

    Attributes:
        about: what was looked at, one of few words.
        what: how it is, one line.
        cure: what to do, one line; empty where all is well.
        exit_code: what the command ends with because of it; 0 unless it is bad.
    """

    about: str
    grade: Grade
    what: str
    cure: str = ""
    exit_code: int = 0


def well(about: str, what: str) -> Finding:
    """Return a finding that needs nothing."""
    return Finding(about, Grade.WELL, what)


def odd(about: str, what: str, cure: str) -> Finding:
    """Return a finding that works and should be changed."""
    return Finding(about, Grade.ODD, what, cure)


def bad(about: str, what: str, cure: str, exit_code: int = 1) -> Finding:
    """Return a finding that keeps something from working."""
    return Finding(about, Grade.BAD, what, cure, exit_code)


def failed(about: str, error: OverspillError) -> Finding:
    """Return the finding for an error."""
    return bad(about, error.what, error.cure, error.exit_code)


def exit_code_of(findings: Iterable[Finding]) -> int:
    """Return the exit code of a look: the weightiest of its bad findings', 0 without one."""
    codes = {found.exit_code for found in findings}
    return next((code for code in EXIT_CODES if code in codes), 0)
