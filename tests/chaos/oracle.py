"""Whether a run lost, doubled or made up anything: the judge of every fault.

Pure: what the producer knows and what a reader found go in, one verdict comes out. It does not know
which fault was made nor how the system works; origins are compared by the judge of the demo.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from deploy.client.judge import compare
from schemas.headers import Origin


class Outcome(str, Enum):
    """What the evidence shows."""

    PASS = "PASS"  # noqa: S105  a verdict
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    """Nothing is proven wrong, and not all of it right: the system was not at rest when it was
    read, or something has ended that only a send without an answer can have been."""


class Sent(NamedTuple):
    """A record that the producer sent.

    Attributes:
        number: its own, also in a header of the record.
        origin: where the broker said it is; None without an answer: it may be there or not.
    """

    number: int
    origin: Origin | None


class End(NamedTuple):
    """A record of `results` or of `dead-letter`.

    Attributes:
        origin: of which request.
        is_letter: which of the two.
        how: its status if it is `ok` or `expired`, else the category of its error.
    """

    origin: Origin
    is_letter: bool
    how: str = "ok"


REPEAT = "repeat"
"""How a request ends that `decisions` calls a repeat."""


class Entry(NamedTuple):
    """One line of the books: what the system has counted, and what its topics hold."""

    name: str
    counted: int
    found: int


class History(NamedTuple):
    """All evidence of one run.

    Attributes:
        sent: what the producer knows.
        requests: number (None: not ours) of each record of `requests`, by origin.
        ends: all records of `results` and `dead-letter`.
        repeats: records of `requests` that `decisions` calls repeats.
        seen: ends that another reader saw while the faults were made.
        books: counts against records.
        may_end: how a request may end, by origin; those that are not in it, in any way.
        at_rest: whether, before all this was read, the system said that nothing is left to do; or,
            with all roles ready, nothing moved for so long that what is left is not being done.
    """

    sent: tuple[Sent, ...]
    requests: dict[Origin, int | None]
    ends: tuple[End, ...]
    repeats: tuple[Origin, ...]
    seen: frozenset[Origin]
    books: tuple[Entry, ...]
    at_rest: bool
    may_end: Mapping[Origin, frozenset[str]] = {}


class Judgement(NamedTuple):
    """What a run has shown.

    Attributes:
        requests: records that needed an end.
        lost: acknowledged or in `requests`, the system at rest, and without an end; or not where
            the broker said that they are.
        doubled: with two ends of one kind, or an end of a repeat.
        in_both: with a result and a dead letter.
        phantom: ends that nobody asked for.
        vanished: ends that were seen during the run, and are not there after it.
        mistaken: ended, but not as such a request must.
        miscounted: lines of the books that do not agree.
        unended: without an end, the system not at rest: they may still get one.
        unexplained: ends that only a send without an answer can have asked for.
    """

    outcome: Outcome
    requests: int
    lost: tuple[Origin, ...]
    doubled: tuple[Origin, ...]
    in_both: tuple[Origin, ...]
    phantom: tuple[Origin, ...]
    vanished: tuple[Origin, ...]
    mistaken: tuple[Origin, ...]
    miscounted: tuple[Entry, ...]
    unended: tuple[Origin, ...]
    unexplained: tuple[Origin, ...]


def judge(history: History) -> Judgement:
    """Return the verdict on a run."""
    known = history.requests
    acknowledged = {sent.origin: sent.number for sent in history.sent if sent.origin is not None}
    asked = acknowledged.keys() | known.keys()
    compared = compare(asked, (*(end.origin for end in history.ends), *history.repeats))
    letters = {end.origin for end in history.ends if end.is_letter}
    results = {end.origin for end in history.ends if not end.is_letter}
    in_both = letters & results
    # A record of a send without an answer is in the log or not; here it is not, and may have been.
    arrived = set(known.values())
    doubtful = [s for s in history.sent if s.origin is None and s.number not in arrived]
    explained = len(compared.strange) <= len(doubtful)
    displaced = {o for o, number in acknowledged.items() if known.get(o, number) != number}
    missing, ended = set(compared.missing), letters | results
    lost = displaced | missing if history.at_rest else displaced
    doubled = set(compared.repeated) - in_both
    phantom = set() if explained else set(compared.strange)
    vanished = history.seen - ended
    hows = [
        *((end.origin, end.how) for end in history.ends),
        *((o, REPEAT) for o in history.repeats),
    ]
    mistaken = {o for o, how in hows if how not in history.may_end.get(o, (how,))}
    miscounted = [line for line in history.books if line.counted != line.found]
    unended = set() if history.at_rest else missing
    unexplained = set(compared.strange) - phantom
    wrong = bool(lost or doubled or in_both or phantom or vanished or mistaken)
    if wrong or (history.at_rest and miscounted):
        outcome = Outcome.FAIL
    elif unexplained or not history.at_rest:
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.PASS
    return Judgement(
        outcome,
        len(asked),
        _sorted(lost),
        _sorted(doubled),
        _sorted(in_both),
        _sorted(phantom),
        _sorted(vanished),
        _sorted(mistaken),
        tuple(miscounted),
        _sorted(unended),
        _sorted(unexplained),
    )


def _sorted(origins: set[Origin] | frozenset[Origin]) -> tuple[Origin, ...]:
    return tuple(sorted(origins))
