from __future__ import annotations

import pytest

from schemas.dead_letter import OURS_BYTES, can_be_kept, origin_said, rejection_headers
from schemas.errors import RecordRejected
from schemas.headers import Headers, Origin
from schemas.outcomes import DeadLetterCategory
from schemas.topics import RECORD_BYTES_MAX


def test_a_dead_letter_says_why_and_when_whatever_the_message_quotes() -> None:
    rejection = RecordRejected(DeadLetterCategory.NOT_JSON, "half a character: \ud800")
    assert rejection_headers(rejection, 1234.5) == [
        ("overspill-error-category", b"not-json"),
        ("overspill-error-message", b"half a character: ?"),
        ("overspill-error-first-seen", b"1234"),
    ]


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (None, b"x" * RECORD_BYTES_MAX, ()),
        (b"x" * RECORD_BYTES_MAX, None, ()),
        (None, None, [("name", b"x" * RECORD_BYTES_MAX)]),
        (None, None, [("", None)] * (RECORD_BYTES_MAX // 4)),
    ],
)
def test_what_only_fits_compressed_is_not_kept(
    key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    assert not can_be_kept(key, value, headers)


def test_whatever_else_a_topic_takes_is_kept() -> None:
    assert can_be_kept(b"k", b"x" * (RECORD_BYTES_MAX - OURS_BYTES - 100), [("name", b"v")])
    assert can_be_kept(None, None, ())


def test_an_origin_that_does_not_read_gives_way_to_the_records_own_place() -> None:
    place = Origin("t.retry", 1, 7)
    assert origin_said(b"t.requests/0/3", place) == b"t.requests/0/3"
    for carried in (None, b"", b"a/b/c", b"a/-1/3"):
        assert origin_said(carried, place) == b"t.retry/1/7"
