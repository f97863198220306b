"""The traffic of the chaos runs: by seed and number alone, and each kind what it says it is."""

from __future__ import annotations

from collections import Counter

import pytest

from schemas.errors import RecordRejected
from schemas.parsing import parse_request
from schemas.request import arrival_ms, expiry_ms
from schemas.topics import REQUEST_BYTES_MAX
from tests.chaos.traffic import ENDS, SHARES, Kind, kind_of, shot

NOW_MS = 1_700_000_000_000
SHOTS = [shot(7, number, NOW_MS) for number in range(6000)]


def test_a_seed_makes_the_same_records_again_and_another_seed_others() -> None:
    assert [shot(7, number, NOW_MS) for number in range(50)] == SHOTS[:50]
    assert [shot(8, number, NOW_MS) for number in range(50)] != SHOTS[:50]


def test_every_kind_comes_in_its_share() -> None:
    kinds = Counter(kind_of(7, number) for number in range(len(SHOTS)))
    assert sum(SHARES.values()) == 1000
    for kind, share in SHARES.items():
        assert kinds[kind] == pytest.approx(share / 1000 * len(SHOTS), rel=0.6, abs=6)
        assert kinds[kind] > 0


def test_malformed_records_are_rejected_and_no_others() -> None:
    for made in SHOTS:
        if made.kind is Kind.MALFORMED:
            with pytest.raises(RecordRejected) as rejected:
                parse_request(made.value)
            assert rejected.value.category.value in ENDS[Kind.MALFORMED]
        else:
            read = parse_request(made.value)
            expired = expiry_ms(read, arrival_ms(read, NOW_MS)) < NOW_MS
            assert expired == (made.kind is Kind.EXPIRED)


def test_the_largest_record_is_as_large_as_a_request_may_be_and_the_other_one_byte_more() -> None:
    sizes = {
        made.kind: len(made.key)
        + len(made.value or b"")
        + sum(len(name) + len(content) for name, content in made.headers)
        for made in SHOTS
    }
    assert sizes[Kind.LARGEST] == REQUEST_BYTES_MAX
    assert sizes[Kind.TOO_LARGE] == REQUEST_BYTES_MAX + 1


def test_a_repeat_is_an_earlier_record_under_its_key_and_a_conflict_another_value() -> None:
    earlier: dict[bytes, bytes | None] = {}
    repeated = conflicting = first = 0
    for made in SHOTS:
        if made.key in earlier and made.kind is Kind.REPEAT:
            repeated += made.value == earlier[made.key]
        if made.key in earlier and made.kind is Kind.CONFLICT:
            conflicting += made.value != earlier[made.key]
        if made.key not in earlier and made.kind in (Kind.REPEAT, Kind.CONFLICT):
            first += 1  # nothing before it could be repeated
        earlier.setdefault(made.key, made.value)
    kinds = Counter(made.kind for made in SHOTS)
    assert repeated + conflicting + first == kinds[Kind.REPEAT] + kinds[Kind.CONFLICT]
    assert first < 5
