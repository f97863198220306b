"""What an answer that is no result means, by its status and its words."""

from __future__ import annotations

import email.utils

import pytest

from executors.backends.http_errors import RETRY_AFTER_MAX_MS, error_of, retry_after_ms
from schemas.outcomes import ErrorCategory

NOW_S = 1_796_000_000.0


def category(status: int, body: bytes = b"", adapter: str | None = None) -> ErrorCategory:
    return error_of(status, body, None, NOW_S, adapter=adapter).category


@pytest.mark.parametrize("status", [301, 302, 307, 401, 403, 405, 415, 418, 424, 500, 501, 505])
def test_what_is_the_servers_fault_is_handed_to_another_node(status: int) -> None:
    assert category(status) is ErrorCategory.BACKEND_ERROR


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "no room"}}', "no room"),
        (b'{"error": "no room"}', "no room"),
        (b'{"detail": "no room"}', "no room"),
        (b'{"detail": [{"msg": "no room"}, 5]}', "no room"),
        (b'{"object": "error", "message": "no room"}', "no room"),
        (b'["no room"]', "without a reason"),
        (b"no room", "without a reason"),
        (b'{"error": "Traceback (most recent call last): no room"}', "without a reason"),
    ],
)
def test_a_servers_words_travel_only_from_json(body: bytes, said: str) -> None:
    assert said in error_of(400, body, None, NOW_S, adapter=None).message


def test_what_was_not_found_is_the_adapter_if_one_was_asked_for() -> None:
    assert category(404) is ErrorCategory.MODEL_NOT_FOUND
    assert category(404, adapter="legal") is ErrorCategory.ADAPTER_NOT_FOUND


@pytest.mark.parametrize(
    "error",
    [
        b'{"error": {"type": "exceed_context_size_error", "message": "x"}}',
        b'{"error": {"code": "context_length_exceeded", "message": "x"}}',
        b'{"error": {"message": "This model\'s maximum context length is 512 tokens"}}',
    ],
)
def test_a_context_that_is_too_long_is_told_from_a_bad_request(error: bytes) -> None:
    assert category(400, error) is ErrorCategory.CONTEXT_TOO_LONG
    assert category(500, error) is ErrorCategory.BACKEND_ERROR


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        (None, None),
        ("7", 7000.0),
        ("0", 0.0),
        ("-3", 0.0),
        ("1e99", RETRY_AFTER_MAX_MS),
        ("nan", None),
        ("soon", None),
        (email.utils.formatdate(NOW_S + 30), 30_000.0),
        (email.utils.formatdate(NOW_S - 30), 0.0),
    ],
)
def test_retry_after_is_read_in_seconds_or_as_a_date_and_bounded(
    header: str | None, wait_ms: float | None
) -> None:
    assert retry_after_ms(header, NOW_S) == wait_ms
