"""Spans: each attempt at a request tells where its time went, in the caller's own trace."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from executors.outcome import Outcome, Times
from executors.story import story_of
from executors.work import Source
from runtime.kafka.records import Undecodable
from runtime.settings import TracingSettings
from runtime.tracing import ATTEMPT, Story, open_tracing
from schemas.errors import UsageError
from schemas.headers import Headers, Origin
from schemas.topics import RESULTS, RETRY
from streams.router import story as of_router
from tests.spans import CALLER, NOT_SAMPLED, SAMPLED, TRACE, Collected
from tests.unit.test_router_batch import NOW, Raw, plan, request

TIMES = Times("r-1", 1, "overflow", 1_000.0, 1_012.0, 1_020.0, 1_083.0, None)
COMMITTED_MS = 1_090.0


def outcome(headers: Headers = SAMPLED, topic: str = RESULTS, **changed: Any) -> Outcome:
    times = TIMES._replace(**changed)
    source, origin = Source("overspill.cpu", 0, 5), Origin("overspill.requests", 0, 7)
    return Outcome(source, origin, topic, b"r-1", b"{}", headers, times=times)


def told(collected: Collected, *stories: Story | None) -> list[Any]:
    """Return the spans of stories."""
    for story in stories:
        assert story is not None
        collected.tracing.tell(story)
    return collected.spans


def by_node(*outcomes: Outcome) -> list[Story | None]:
    return [story_of(each, "cpu-1", "cpu", COMMITTED_MS) for each in outcomes]


def by_router(*records: object) -> list[Story | None]:
    """Return the stories of what ends at a router that commits 5 ms after its decisions."""
    return [of_router.story_of(ended, NOW, NOW + 5) for ended in plan(*records).ended]


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected("executor")
    yield made
    made.tracing.close()


def test_an_attempt_is_a_span_below_the_callers(collected: Collected) -> None:
    whole = next(span for span in told(collected, *by_node(outcome())) if span.name == ATTEMPT)
    assert f"{whole.context.trace_id:032x}" == TRACE
    assert f"{whole.parent.span_id:016x}" == CALLER
    assert whole.attributes["overspill.request_id"] == "r-1"
    assert (whole.start_time, whole.end_time) == (1_000_000_000, 1_090_000_000)
    assert whole.status.is_unset


def test_its_parts_are_route_wait_run_and_result_without_a_gap(collected: Collected) -> None:
    spans = {span.name: span for span in told(collected, *by_node(outcome()))}
    whole = spans.pop(ATTEMPT)
    assert list(spans) == ["route", "wait", "run", "result"]
    assert all(span.parent.span_id == whole.context.span_id for span in spans.values())
    moments = [(span.start_time // 10**6, span.end_time // 10**6) for span in spans.values()]
    assert moments == [(1000, 1012), (1012, 1020), (1020, 1083), (1083, 1090)]


def test_attempts_on_several_nodes_are_in_one_trace(collected: Collected) -> None:
    refused = outcome(topic=RETRY, failed="overloaded")
    spans = told(collected, *by_node(refused, outcome(attempt=2)))
    wholes = [span for span in spans if span.name == ATTEMPT]
    assert [span.attributes["overspill.attempt"] for span in wholes] == [1, 2]
    assert {span.context.trace_id for span in wholes} == {int(TRACE, 16)}
    assert wholes[0].status.description == "overloaded"


def test_a_request_that_never_ran_has_no_run(collected: Collected) -> None:
    expired = outcome(started_ms=None, ended_ms=2_000.0, failed="expired")
    assert "run" not in {span.name for span in told(collected, *by_node(expired))}


@pytest.mark.parametrize(
    "headers", [(), NOT_SAMPLED, (("traceparent", b"\xff"),), (("traceparent", None),)],
    ids=["none", "not sampled", "not ours to read", "null"],
)  # fmt: skip
def test_without_a_trace_that_the_caller_wants_kept_there_are_no_spans(
    collected: Collected, headers: Headers
) -> None:
    assert told(collected, *by_node(outcome(headers))) == []


def test_a_dead_letter_has_no_story() -> None:
    letter = outcome()
    assert story_of(
        Outcome(letter.source, letter.origin, "dead-letter", None, None, ()), "n", "p", 0.0
    ) is None  # fmt: skip


LATE = Raw(0, request(expires_after_ms=10), timestamp=NOW - 30, headers=list(SAMPLED))
NOTHING = Raw(2, b"{", timestamp=NOW - 20, headers=list(SAMPLED))
TWICE = [Raw(at, request("r3", tenant=f"{at}"), headers=list(SAMPLED)) for at in (3, 4)]


@pytest.mark.parametrize(
    ("records", "why", "known_as", "written_to"),
    [
        ([LATE], "expired", "r1", "t.results"),
        ([NOTHING], "not-json", None, "t.dead-letter"),
        (TWICE, "conflict", "r3", "t.dead-letter"),
    ],
)
def test_what_ends_at_the_router_is_told_by_the_router(
    collected: Collected, records: list[Raw], why: str, known_as: str | None, written_to: str
) -> None:
    (whole,) = (span for span in told(collected, *by_router(*records)) if span.name == ATTEMPT)
    assert f"{whole.context.trace_id:032x}" == TRACE
    assert f"{whole.parent.span_id:016x}" == CALLER
    assert whole.status.description == whole.attributes["overspill.reason"] == why
    assert whole.attributes.get("overspill.request_id") == known_as
    assert whole.attributes["overspill.written_to"] == written_to
    assert whole.attributes["overspill.attempt"] == 1


@pytest.mark.parametrize("record", [LATE, NOTHING], ids=["a request", "a dead letter"])
def test_its_time_went_into_route_and_result(collected: Collected, record: Raw) -> None:
    route, result, whole = told(collected, *by_router(record))
    assert [(span.name, span.parent.span_id) for span in (route, result)] == [
        ("route", whole.context.span_id),
        ("result", whole.context.span_id),
    ]
    moments = [(span.start_time // 10**6, span.end_time // 10**6) for span in (route, result)]
    assert moments == [(record.timestamp, NOW), (NOW, NOW + 5)]


def test_what_is_routed_or_seen_before_is_not_told_by_the_router() -> None:
    assert by_router(*(Raw(at, request(), headers=list(SAMPLED)) for at in (0, 1))) == []


def test_a_record_that_nobody_can_read_has_no_story() -> None:
    assert by_router(Undecodable(9, NOW, "wrong checksum")) == [None]


@pytest.mark.parametrize(
    "timestamp", [-1, NOW + 10_000, 253_402_300_799_000], ids=["none", "ahead of us", "year 9999"]
)
def test_a_callers_clock_makes_no_span_that_cannot_be(collected: Collected, timestamp: int) -> None:
    bad = Raw(0, b"{", timestamp=timestamp, headers=list(SAMPLED))
    for span in told(collected, *by_router(bad)):
        assert 0 <= span.start_time <= span.end_time
        assert encode_spans([span])  # else those of others that are sent with it are lost as well


def test_nothing_is_traced_unless_a_collector_is_named() -> None:
    assert open_tracing(TracingSettings(), "executor", "1") is None


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry.exporter"):
            raise ImportError(name)
        return importing(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"overspill\[tracing\]"):
        open_tracing(TracingSettings(endpoint="http://127.0.0.1:1/v1/traces"), "executor", "1")
