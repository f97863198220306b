"""A pool record becomes work, or a dead letter that says what is wrong with it."""

from __future__ import annotations

import orjson
import pytest

from executors.heap import Urgency
from executors.work import Source, Work, held_until_ms, read_work, yields_until_ms
from schemas.errors import RecordRejected
from schemas.features import REALTIME_SLO_MS
from schemas.headers import FOR_GOOD, VERSION, Exclusion, Origin, Passage, encode_passage
from schemas.outcomes import DeadLetterCategory
from schemas.request import EXPIRES_AFTER_MS_DEFAULT

SOURCE = Source("overspill.gpu", 3, 41)
ARRIVED = 1_700_000_000_000
DECISION = b'{"reason":"overflow","threshold":10,"policy":"overflow","decided_at_ms":1700000000005}'
PASSAGE = Passage("r-1", Origin("overspill.requests", 2, 7), ARRIVED, decision=DECISION)


def value(**fields: object) -> bytes:
    return orjson.dumps({"id": "r-1", "model_name": "m", "payload": {"prompt": "hi"}, **fields})


def read(
    raw: bytes | None = None,
    passage: Passage = PASSAGE,
    extra: tuple[tuple[str, bytes | None], ...] = (),
    *,
    express: bool = False,
) -> Work:
    headers = (*extra, *encode_passage(passage))
    return read_work(SOURCE, b"key", value() if raw is None else raw, headers, express=express)


def test_it_carries_the_callers_bytes_and_what_our_headers_say() -> None:
    binary = ("trace", b"\x00\xff")
    work = read(extra=(binary, ("empty", None), binary))
    assert work.headers == [binary, ("empty", None), binary]
    assert (work.source, work.key, work.value) == (SOURCE, b"key", value())
    assert work.passage == PASSAGE
    assert work.decision.reason == "overflow"


@pytest.mark.parametrize("priority", ["realtime", "normal", "batch"])
def test_urgency_is_the_priority_unless_it_came_by_the_express_topic(priority: str) -> None:
    raw = value(priority=priority)
    assert read(raw).urgency is Urgency[priority.upper()]
    assert read(raw, express=True).urgency is Urgency.EXPRESS


def test_the_deadline_is_the_objective_and_without_one_the_expiry() -> None:
    work = read(value(latency_slo_ms=800))
    assert (work.slo_ms, work.deadline_ms) == (800, ARRIVED + 800)
    assert work.expires_at_ms == ARRIVED + EXPIRES_AFTER_MS_DEFAULT
    assert read().deadline_ms == ARRIVED + EXPIRES_AFTER_MS_DEFAULT
    assert read(value(priority="realtime")).slo_ms == REALTIME_SLO_MS


def test_it_yields_the_last_slot_from_its_arrival_for_as_long_as_its_router_says() -> None:
    later = ARRIVED + 10_000.0
    assert yields_until_ms(read(), later) == ARRIVED
    work = read(passage=PASSAGE._replace(decision=DECISION[:-1] + b',"yields_ms":256}'))
    assert yields_until_ms(work, later) == ARRIVED + 256


def test_an_arrival_that_this_nodes_clock_has_yet_to_see_makes_nothing_yield_for_longer() -> None:
    earlier = ARRIVED - 3_600_000.0
    assert yields_until_ms(read(), earlier) == earlier
    work = read(passage=PASSAGE._replace(decision=DECISION[:-1] + b',"yields_ms":256}'))
    assert yields_until_ms(work, earlier) == earlier + 256


def test_a_lapsing_refusal_of_this_node_holds_the_work_and_no_other_does() -> None:
    excluded = (Exclusion("me", 500), Exclusion("other", 900), Exclusion("gone", FOR_GOOD))
    work = read(passage=PASSAGE._replace(excluded=excluded))
    assert held_until_ms(work, "me") == 500
    assert held_until_ms(work, "gone") == 0
    assert held_until_ms(work, "new") == 0


@pytest.mark.parametrize(
    ("raw", "category"),
    [
        (b"not json", DeadLetterCategory.NOT_JSON),
        (b"\xff", DeadLetterCategory.BAD_ENCODING),
        (b"[]", DeadLetterCategory.NOT_JSON),
        (b"{}", DeadLetterCategory.INVALID_FIELD),
        (b'{"id":"a","model_name":"m","payload":{},"version":2}',
         DeadLetterCategory.UNSUPPORTED_VERSION),
    ],
)  # fmt: skip
def test_bad_bytes_are_rejected_with_their_category(
    raw: bytes, category: DeadLetterCategory
) -> None:
    with pytest.raises(RecordRejected) as caught:
        read(raw)
    assert caught.value.category is category


def test_a_null_value_is_rejected() -> None:
    with pytest.raises(RecordRejected) as caught:
        read_work(SOURCE, None, None, encode_passage(PASSAGE), express=False)
    assert caught.value.category is DeadLetterCategory.NULL_VALUE


def test_headers_of_a_newer_version_are_rejected_as_such() -> None:
    with pytest.raises(RecordRejected, match="upgrade") as caught:
        read_work(SOURCE, None, value(), [(VERSION, b"2")], express=False)
    assert caught.value.category is DeadLetterCategory.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "headers",
    [
        [],
        encode_passage(PASSAGE._replace(decision=None)),
        encode_passage(PASSAGE._replace(decision=b"{}")),
        [*encode_passage(PASSAGE), ("overspill-origin", b"nowhere")],
        [*encode_passage(PASSAGE), (VERSION, b"x")],
        [*encode_passage(PASSAGE), ("overspill-attempt", None)],
    ],
)
def test_a_record_that_no_router_wrote_is_rejected(
    headers: list[tuple[str, bytes | None]],
) -> None:
    with pytest.raises(RecordRejected) as caught:
        read_work(SOURCE, None, value(), headers, express=False)
    assert caught.value.category is DeadLetterCategory.INVALID_FIELD


def test_a_record_larger_than_a_request_is_refused_before_it_is_read() -> None:
    with pytest.raises(RecordRejected) as rejection:
        read(value(pad="x" * 2**20))
    assert rejection.value.category is DeadLetterCategory.TOO_LARGE


@pytest.mark.parametrize(("header", "mflop"), [(b',"counts_work":true', 2_500), (b"", 0)])
def test_its_work_is_what_its_router_counted(header: bytes, mflop: int) -> None:
    passage = PASSAGE._replace(decision=DECISION[:-1] + header + b"}")
    assert read(value(estimated_gflops=2.5), passage).mflop == mflop
    assert read(value(), passage).mflop == 0
