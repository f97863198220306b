"""What a node writes for a record: a result, a refusal or a dead letter, nothing lost in it."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from executors.backends.base import Completion
from executors.outcome import RESULT_BYTES_MAX, Run, ended, expired, finished_ok, refused, rejected
from executors.retry import End, Refuse
from executors.work import Source, Work, read_work
from schemas.errors import FormatError, RecordRejected
from schemas.headers import (
    ERROR_CATEGORY,
    ERROR_MESSAGE,
    FINISHED,
    FOR_GOOD,
    ORIGIN,
    PREFIX,
    REFUSED,
    REQUEST_ID,
    Exclusion,
    Finished,
    Origin,
    Passage,
    Refusal,
    decode_passage,
    encode_passage,
    split_headers,
)
from schemas.headers import SPENT as SPENT_HEADER
from schemas.outcomes import DeadLetterCategory, ErrorCategory
from schemas.pools import ComputeType
from schemas.result import Result, ServedBy
from schemas.topics import DEAD_LETTER, RECORD_BYTES_MAX, RESULTS, RETRY

LACKS = "adapter-not-found: this node has no adapter a"
ARRIVED = 1_700_000_000_000
DECIDED = ARRIVED + 10
NOW = ARRIVED + 100.0
DECISION = orjson.dumps(
    {
        "reason": "overflow",
        "threshold": 12,
        "policy": "overflow",
        "decided_at_ms": DECIDED,
        "counts_work": True,
    }
)
ORIGIN_OF = Origin("overspill.requests", 2, 7)
CALLERS = (("traceparent", b"00-1"), ("bin", b"\x00\xff"), ("null", None), ("bin", b"again"))
SERVED_BY = ServedBy(
    node="n1", pool="gpu", compute_type=ComputeType.GPU, backend="emulated", engine="e",
    device="d", model="m", emulated=True,
)  # fmt: skip
SPENT = ("gpu", 0.25)
RUN = Run(SERVED_BY, started_ms=ARRIVED + 40, run_ms=60.0, cost=0.06)


def work(excluded: tuple[Exclusion, ...] = (), attempt: int = 1, **fields: object) -> Work:
    raw = orjson.dumps({"id": "r-1", "model_name": "m", "payload": {}, **fields})
    passage = Passage("r-1", ORIGIN_OF, ARRIVED, attempt, excluded, decision=DECISION)
    headers = (*CALLERS, *encode_passage(passage))
    return read_work(Source("overspill.gpu", 3, 41), b"k", raw, headers, express=False)


def result_of(value: bytes | None) -> Result:
    assert value is not None
    return Result.model_validate(orjson.loads(value))


def test_a_result_has_output_usage_cost_times_and_decision() -> None:
    outcome = finished_ok(
        work(tenant="t"), RUN, Completion({"text": "hi"}, {"total_tokens": 3}, 5.0), NOW
    )
    result = result_of(outcome.value)
    assert (outcome.topic, outcome.key, outcome.origin) == (RESULTS, b"k", ORIGIN_OF)
    assert (result.id, result.status, result.error) == ("r-1", "ok", None)
    assert result.output == {"text": "hi"}
    assert result.usage == {"total_tokens": 3}
    assert result.served_by == SERVED_BY
    assert result.timings_ms.model_dump() == {
        "to_router": 10, "in_pool": 30, "run": 60, "first_token": 5, "total": 100,
    }  # fmt: skip
    assert (result.cost, result.tenant, result.model_name, result.attempt) == (0.06, "t", "m", 1)
    assert (result.decision.reason, result.decision.threshold) == ("overflow", 12)


@pytest.mark.parametrize(("slo", "met"), [(100, True), (99, False)])
def test_an_objective_is_met_when_the_total_is_within_it(slo: float, met: bool) -> None:
    result = result_of(finished_ok(work(latency_slo_ms=slo), RUN, Completion({}), NOW).value)
    assert result.slo.model_dump() == {"ms": slo, "met": met}


def test_without_an_objective_nothing_is_met_or_missed() -> None:
    result = result_of(finished_ok(work(), RUN, Completion({}), NOW).value)
    assert result.slo.model_dump() == {"ms": None, "met": None}


def test_every_outcome_carries_the_callers_headers_byte_for_byte() -> None:
    one = work()
    for outcome in (
        finished_ok(one, RUN, Completion({}), NOW),
        expired(one, None, NOW),
        ended(one, RUN, End(ErrorCategory.BAD_REQUEST, "no"), NOW),
        refused(one, "n1", Refuse(FOR_GOOD, LACKS), NOW, SPENT),
    ):
        theirs, ours = split_headers(outcome.headers)
        assert tuple(theirs) == CALLERS
        assert ours[REQUEST_ID] == b"r-1"
        assert ours[ORIGIN] == ORIGIN_OF.encode()


def test_an_error_says_its_category_and_what_ran() -> None:
    end = End(ErrorCategory.CONTEXT_TOO_LONG, "9 tokens, 8 fit")
    result = result_of(ended(work(), RUN, end, NOW).value)
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.category, result.error.message) == ("context-too-long", "9 tokens, 8 fit")
    assert result.served_by == SERVED_BY
    assert result.cost == RUN.cost


def test_what_expired_in_the_heap_was_served_by_nobody_and_cost_nothing() -> None:
    outcome = expired(work(), None, NOW)
    assert outcome.expired
    result = result_of(outcome.value)
    assert (result.status, result.served_by, result.cost) == ("expired", None, 0.0)
    assert result.timings_ms.in_pool == 90


def test_a_result_of_the_largest_size_is_written_and_one_byte_more_is_an_error() -> None:
    empty = finished_ok(work(), RUN, Completion({"text": ""}), NOW).size
    fits = {"text": "x" * (RESULT_BYTES_MAX - empty)}
    outcome = finished_ok(work(), RUN, Completion(fits), NOW)
    assert outcome.size == RESULT_BYTES_MAX < RECORD_BYTES_MAX
    assert result_of(outcome.value).status == "ok"
    result = result_of(
        finished_ok(work(), RUN, Completion({"text": fits["text"] + "x"}), NOW).value
    )
    assert result.error is not None
    assert result.error.category is ErrorCategory.RESULT_TOO_LARGE
    assert result.output is None


def test_a_refusal_is_the_request_unchanged_in_the_retry_partition_of_its_origin() -> None:
    one = work()
    outcome = refused(one, "n1", Refuse(5_000, "overloaded: 429"), NOW, SPENT)
    assert (outcome.topic, outcome.partition) == (RETRY, ORIGIN_OF.partition)
    assert (outcome.key, outcome.value) == (one.key, one.value)
    again = decode_passage(split_headers(outcome.headers)[1])
    assert again.attempt == 2
    assert again.excluded == (Exclusion("n1", 5_000),)
    assert again.arrived_at_ms == ARRIVED
    assert again.refusals == (Refusal("n1", "overloaded: 429"),)


def test_the_result_tells_what_earlier_attempts_have_cost_by_pool() -> None:
    one = work()
    for node, spent in (("n1", SPENT), ("n2", ("cpu", 0.125)), ("n3", SPENT)):
        refusal = refused(one, node, Refuse(FOR_GOOD, LACKS), NOW, spent)
        passage = decode_passage(split_headers(refusal.headers)[1])
        one = dataclasses.replace(one, passage=passage)
    ends = finished_ok(one, RUN, Completion({}), NOW), expired(one, None, NOW)
    for outcome, cost in zip(ends, (RUN.cost, 0.0), strict=True):
        result = result_of(outcome.value)
        assert (result.cost, result.earlier_cost) == (cost, {"gpu": 0.5, "cpu": 0.125})
        assert SPENT_HEADER not in dict(outcome.headers)


def test_refusals_are_kept_in_order_and_go_into_no_result() -> None:
    one = work()
    for number in range(6):
        refusal = refused(one, f"n{number}", Refuse(FOR_GOOD, "y" * 999), NOW, SPENT)
        passage = decode_passage(split_headers(refusal.headers)[1])
        one = dataclasses.replace(one, passage=passage)
    assert [node for node, _ in passage.refusals] == ["n2", "n3", "n4", "n5"]
    assert {why for _, why in passage.refusals} == {"y" * 200}
    end = End(ErrorCategory.BAD_REQUEST, "no")
    assert REFUSED not in dict(ended(one, None, end, NOW).headers)


def test_a_refusal_keeps_the_exclusions_that_still_hold() -> None:
    later = int(NOW) + 1
    one = work((Exclusion("lapsed", 1), Exclusion("good", FOR_GOOD), Exclusion("soon", later)), 3)
    again = decode_passage(
        split_headers(refused(one, "n1", Refuse(later, "x"), NOW, SPENT).headers)[1]
    )
    assert again.excluded == (
        Exclusion("good", FOR_GOOD), Exclusion("soon", later), Exclusion("n1", later),
    )  # fmt: skip
    assert again.attempt == 4


def test_a_node_stands_once_among_the_exclusions() -> None:
    one = work((Exclusion("n1", int(NOW) + 50),))
    again = decode_passage(
        split_headers(refused(one, "n1", Refuse(FOR_GOOD, LACKS), NOW, SPENT).headers)[1]
    )
    assert again.excluded == (Exclusion("n1", FOR_GOOD),)


def test_a_dead_letter_is_the_record_as_received_with_the_error_beside_it() -> None:
    headers: list[Any] = [*CALLERS, (ORIGIN, b"a/1/2"), (ERROR_CATEGORY, b"old"), (FINISHED, b"x")]
    rejection = RecordRejected(DeadLetterCategory.NOT_JSON, "the value is not JSON")
    outcome = rejected(Source("overspill.gpu", 3, 41), b"\x00", b"junk", headers, rejection, NOW)
    assert (outcome.topic, outcome.key, outcome.value) == (DEAD_LETTER, b"\x00", b"junk")
    assert outcome.headers[: len(CALLERS) + 1] == (*CALLERS, (ORIGIN, b"a/1/2"))
    ours = dict(outcome.headers)
    assert ours[ERROR_CATEGORY] == b"not-json"
    assert ours[ERROR_MESSAGE] == b"the value is not JSON"
    names = [name for name, _ in outcome.headers if name.startswith(PREFIX)]
    assert len(names) == len(set(names))


def test_clocks_that_disagree_give_no_negative_times() -> None:
    early = finished_ok(
        work(), RUN._replace(started_ms=0.0), Completion({}, None, 1.0), ARRIVED - 5.0
    )
    assert min(result_of(early.value).timings_ms.model_dump().values()) >= 0


def test_the_header_of_a_finished_offset_reads_back() -> None:
    finished = Finished("a.gpu.express", 31, 2**40, 2**41)
    assert Finished.decode(finished.encode()) == finished
    with pytest.raises(FormatError, match="overspill-finished"):
        Finished.decode(b"a/1/2")


def test_a_dead_letter_of_a_record_without_an_origin_has_its_own_place_as_one() -> None:
    rejection = RecordRejected(DeadLetterCategory.UNDECODABLE, "wrong checksum")
    outcome = rejected(Source("overspill.gpu", 3, 41), None, None, (), rejection, NOW)
    assert dict(outcome.headers)[ORIGIN] == b"overspill.gpu/3/41"


def test_a_record_that_no_topic_takes_becomes_a_dead_letter_of_its_coordinates() -> None:
    rejection = RecordRejected(DeadLetterCategory.TOO_LARGE, "too large")
    bomb = b"\0" * (5 * 2**20)
    outcome = rejected(Source("overspill.gpu", 3, 41), b"k", bomb, CALLERS, rejection, NOW)
    assert (outcome.key, outcome.value) == (None, None)
    assert dict(outcome.headers)[ORIGIN] == b"overspill.gpu/3/41"
    assert outcome.size < 1000


def test_every_ending_takes_its_work_along_and_no_result_says_how_it_was_counted() -> None:
    some = work(estimated_gflops=2.5)
    endings = (
        finished_ok(some, RUN, Completion({}), NOW),
        ended(some, None, End(ErrorCategory.BAD_REQUEST, "no"), NOW),
        expired(some, None, NOW),
        refused(some, "n1", Refuse(FOR_GOOD, LACKS), NOW, SPENT),
    )
    assert [outcome.mflop for outcome in endings] == [2_500] * 4
    assert all(b"counts_work" not in (outcome.value or b"") for outcome in endings)
    no_request = RecordRejected(DeadLetterCategory.NOT_JSON, "no")
    assert rejected(some.source, None, b"", (), no_request, NOW).mflop == 0
