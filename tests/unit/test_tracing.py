"""Spans: each attempt at a request tells where its time went, in the caller's own trace."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from executors.outcome import Outcome, Times
from executors.story import ATTEMPT, story_of
from executors.work import Source
from runtime.settings import TracingSettings
from runtime.tracing import Tracing, make_provider, open_tracing
from schemas.errors import UsageError
from schemas.headers import Headers, Origin
from schemas.topics import RESULTS, RETRY

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = (("traceparent", f"00-{TRACE}-{CALLER}-01".encode()),)
NOT_SAMPLED = (("traceparent", f"00-{TRACE}-{CALLER}-00".encode()),)
TIMES = Times("r-1", 1, "overflow", 1_000.0, 1_012.0, 1_020.0, 1_083.0, None)
COMMITTED_MS = 1_090.0


def outcome(headers: Headers = SAMPLED, topic: str = RESULTS, **changed: Any) -> Outcome:
    times = TIMES._replace(**changed)
    source, origin = Source("overspill.cpu", 0, 5), Origin("overspill.requests", 0, 7)
    return Outcome(source, origin, topic, b"r-1", b"{}", headers, times=times)


class Collected:
    """Spans as a collector would get them."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = make_provider("executor", "1")
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider)

    def of(self, *outcomes: Outcome) -> list[Any]:
        for each in outcomes:
            story = story_of(each, "cpu-1", "cpu", COMMITTED_MS)
            assert story is not None
            self.tracing.tell(story)
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.tracing.close()


def test_an_attempt_is_a_span_below_the_callers(collected: Collected) -> None:
    whole = next(span for span in collected.of(outcome()) if span.name == ATTEMPT)
    assert f"{whole.context.trace_id:032x}" == TRACE
    assert f"{whole.parent.span_id:016x}" == CALLER
    assert whole.attributes["overspill.request_id"] == "r-1"
    assert (whole.start_time, whole.end_time) == (1_000_000_000, 1_090_000_000)
    assert whole.status.is_unset


def test_its_parts_are_route_wait_run_and_result_without_a_gap(collected: Collected) -> None:
    spans = {span.name: span for span in collected.of(outcome())}
    whole = spans.pop(ATTEMPT)
    assert list(spans) == ["route", "wait", "run", "result"]
    assert all(span.parent.span_id == whole.context.span_id for span in spans.values())
    moments = [(span.start_time // 10**6, span.end_time // 10**6) for span in spans.values()]
    assert moments == [(1000, 1012), (1012, 1020), (1020, 1083), (1083, 1090)]


def test_attempts_on_several_nodes_are_in_one_trace(collected: Collected) -> None:
    refused = outcome(topic=RETRY, failed="overloaded")
    spans = collected.of(refused, outcome(attempt=2))
    wholes = [span for span in spans if span.name == ATTEMPT]
    assert [span.attributes["overspill.attempt"] for span in wholes] == [1, 2]
    assert {span.context.trace_id for span in wholes} == {int(TRACE, 16)}
    assert wholes[0].status.description == "overloaded"


def test_a_request_that_never_ran_has_no_run(collected: Collected) -> None:
    expired = outcome(started_ms=None, ended_ms=2_000.0, failed="expired")
    assert "run" not in {span.name for span in collected.of(expired)}


@pytest.mark.parametrize(
    "headers", [(), NOT_SAMPLED, (("traceparent", b"\xff"),), (("traceparent", None),)],
    ids=["none", "not sampled", "not ours to read", "null"],
)  # fmt: skip
def test_without_a_trace_that_the_caller_wants_kept_there_are_no_spans(
    collected: Collected, headers: Headers
) -> None:
    assert collected.of(outcome(headers)) == []


def test_a_dead_letter_has_no_story() -> None:
    letter = outcome()
    assert story_of(
        Outcome(letter.source, letter.origin, "dead-letter", None, None, ()), "n", "p", 0.0
    ) is None  # fmt: skip


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
