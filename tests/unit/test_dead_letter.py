from __future__ import annotations

from schemas.dead_letter import rejection_headers
from schemas.errors import RecordRejected
from schemas.outcomes import DeadLetterCategory


def test_a_dead_letter_says_why_and_when_whatever_the_message_quotes() -> None:
    rejection = RecordRejected(DeadLetterCategory.NOT_JSON, "half a character: \ud800")
    assert rejection_headers(rejection, 1234.5) == [
        ("overspill-error-category", b"not-json"),
        ("overspill-error-message", b"half a character: ?"),
        ("overspill-error-first-seen", b"1234"),
    ]
