"""What becomes of a batch: each record exactly one thing, its bytes unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from executors.work import Source, read_work
from runtime.kafka.outputs import Destination, Outputs
from runtime.kafka.records import Undecodable
from runtime.metrics import Metrics
from schemas import headers as h
from schemas.decisions import DecisionsRecord, ViewInputs, encode_decisions
from schemas.headers import Exclusion, Origin, Passage, Refusal, encode_passage
from schemas.metadata import RouterCounts
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS
from schemas.registry import PACKED_BYTES_MAX
from schemas.topics import TopicNames
from schemas.work import MFLOP_MAX
from streams.policy import View, policy
from streams.router import intake
from streams.router.batch import Batch
from streams.router.bindings import STATED_BYTES_MAX, Bindings
from streams.router.desk import Desk, pool_topic_names
from streams.router.meter import RouterMetrics
from streams.router.plan import REQUESTS, RETRY, Headcount, Plan, add_up
from streams.router.queue import RECORDS_MAX, Queue
from streams.router.window import DuplicateWindow
from tests.fleet import free, snapshot

NOW = 1_790_000_000_000
NAMES = TopicNames("t.")
EMPTY = RouterCounts({}), RouterCounts({})


@dataclass
class Raw:
    offset: int
    value: bytes | None
    key: bytes | None = b"key"
    timestamp: int = NOW
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def request(identity: str = "r1", **fields: object) -> bytes:
    return orjson.dumps({"id": identity, "model_name": "m", "payload": {"prompt": "hi"}} | fields)


def desk(window: DuplicateWindow | None = None) -> Desk:
    view = View(DEFAULT_POOLS, "router", {"gpu": 4, "cpu": 4, "npu": 4})
    view.mode = Mode.BLIND
    widths = {NAMES.results: 4, NAMES.dead_letter: 4}
    return Desk(
        2,
        NAMES,
        policy("overflow"),
        view,
        window or DuplicateWindow(),
        Bindings(),
        widths,
        pool_topic_names(NAMES, DEFAULT_POOLS),
    )


def decisions_of(outputs: Outputs) -> dict[bytes, dict[str, Any]]:
    """Return what the header says of each request, by id."""
    headers = [dict(record.headers) for _, _, record in written(outputs)]
    return {ours[h.REQUEST_ID]: orjson.loads(ours[h.DECISION]) for ours in headers}


def plan_queue(queue: Queue, at: Desk | None = None) -> Plan:
    """Take what fits one transaction from the queue through all passes."""
    batch = Batch(at or desk(), queue.take(), EMPTY)
    for part in batch.parts:
        batch.read(part)
    batch.decide(NOW)
    for part in batch.parts:
        batch.write(part)
    batch.count()
    return batch.plan


def queued(records: Iterable[object], source: int = REQUESTS) -> Queue:
    queue = Queue()
    queue.offer(source, list(records))  # type: ignore[arg-type]
    return queue


def plan(*records: object, source: int = REQUESTS, at: Desk | None = None) -> Plan:
    return plan_queue(queued(records, source), at)


def written(outputs: Outputs) -> list[tuple[str, int, object]]:
    """Return (topic, partition, record) of everything a plan writes."""
    return [
        (topic, partition, record)
        for (topic, partition), batches in outputs.batches()
        for batch in batches
        for record in DefaultRecordBatch(bytes(batch._build()))
    ]


def test_a_request_passes_with_key_value_and_headers_unchanged_and_ours_beside_them() -> None:
    value = request(priority="realtime", unknown={"kept": [1, 2]})
    theirs = [("traceparent", b"00-1"), ("twice", b"\xff\x00"), ("twice", None)]
    [(topic, partition, record)] = written(plan(Raw(7, value, headers=list(theirs))).outputs)
    assert topic == "t.gpu.express"
    assert (record.key, record.value) == (b"key", value)
    assert list(record.headers)[:3] == theirs
    ours = dict(list(record.headers)[3:])
    assert ours[h.REQUEST_ID] == b"r1"
    assert ours[h.ORIGIN] == b"t.requests/2/7"
    assert ours[h.ATTEMPT] == b"1"
    assert orjson.loads(ours[h.DECISION])["reason"] == "realtime"
    assert 0 <= partition < 4


def test_each_request_tells_its_node_how_long_it_yields() -> None:
    known = desk()
    known.view.mode = Mode.NORMAL
    known.view.load(snapshot(free("gpu-1")), {})
    by_objective = replace(policy("overflow"), yields=lambda features, *_: int(features.slo_ms))
    at = replace(known, policy=by_objective)
    records = [Raw(n, request(f"r{n}", latency_slo_ms=100 * (n + 1))) for n in range(3)]
    told = decisions_of(plan(*records, at=at).outputs)
    assert {name: said["yields_ms"] for name, said in told.items()} == {
        b"r0": 100,
        b"r1": 200,
        b"r2": 300,
    }


def test_headers_named_like_ours_are_dropped_and_counted() -> None:
    made = plan(Raw(0, request(), headers=[("overspill-origin", b"x/0/0"), ("a", b"b")]))
    [(_, _, record)] = written(made.outputs)
    assert made.dropped_headers == 1
    assert [name for name, _ in record.headers].count("overspill-origin") == 1


@pytest.mark.parametrize(
    ("value", "category"),
    [
        (None, "null-value"),
        (b"{", "not-json"),
        (b"\xff\xfe", "bad-encoding"),
        (request(priority="soon"), "invalid-field"),
        (b'{"payload":' + b"[" * 300 + b"]" * 300 + b"}", "too-deep"),
        (request(version=2), "unsupported-version"),
        (request(blob="x" * (1 << 20)), "too-large"),
    ],
)
def test_a_bad_record_becomes_a_dead_letter_as_received(value: bytes | None, category: str) -> None:
    made = plan(Raw(5, value, headers=[("mine", b"1")]))
    [(topic, _, record)] = written(made.outputs)
    assert topic == "t.dead-letter"
    assert (record.key, record.value) == (b"key", value)
    headers = dict(record.headers)
    assert headers["mine"] == b"1"
    assert headers[h.ERROR_CATEGORY] == category.encode()
    assert headers[h.ORIGIN] == b"t.requests/2/5"
    assert made.headcounts[REQUESTS].counts() == RouterCounts({}, consumed=1, dead=1)


def test_an_undecodable_record_leaves_its_coordinates() -> None:
    [(_, _, record)] = written(plan(Undecodable(9, NOW, "wrong checksum")).outputs)
    assert (record.key, record.value) == (None, None)
    assert dict(record.headers)[h.ORIGIN] == b"t.requests/2/9"


def test_an_objective_that_ends_with_the_request_at_the_router_counts_as_missed() -> None:
    late = request(latency_slo_ms=100, expires_after_ms=10, arrived_at=NOW - 500)
    made = plan(Raw(0, late), Raw(1, request("r2", expires_after_ms=10, arrived_at=NOW - 500)))
    assert made.objectives_missed == 1
    metrics = Metrics("router", "test")
    RouterMetrics(metrics).committed(made, 0.01)
    assert metrics.registry.get_sample_value("overspill_router_slo_missed_total") == 1


def test_an_expired_request_ends_as_a_result_and_is_not_routed() -> None:
    made = plan(Raw(0, request(expires_after_ms=10), timestamp=NOW - 11))
    [(topic, _, record)] = written(made.outputs)
    result = orjson.loads(record.value)
    assert (topic, result["status"], result["decision"]["reason"]) == (
        "t.results", "expired", "expired",
    )  # fmt: skip
    assert made.headcounts[REQUESTS].counts().balanced


def test_the_same_request_again_is_counted_and_yields_nothing() -> None:
    made = plan(Raw(0, request()), Raw(1, request()))
    assert len(written(made.outputs)) == 1
    assert made.duplicates == 1
    counts = made.headcounts[REQUESTS].counts()
    assert (counts.consumed, counts.duplicate, counts.balanced) == (2, 1, True)


def test_a_router_counts_the_work_that_nodes_will_find_in_what_it_wrote() -> None:
    estimates = {"a": 2.5, "b": 4, "c": None, "d": 0.1, "e": 1e15, "f": 0}
    made = plan(
        *(Raw(n, request(name, estimated_gflops=gflops, priority="realtime" if n % 2 else "batch"))
          for n, (name, gflops) in enumerate(estimates.items())),
        Raw(6, request("a", estimated_gflops=2.5, priority="batch")),  # a duplicate
        Raw(7, request("g", estimated_gflops=9, expires_after_ms=1), timestamp=NOW - 5),
    )  # fmt: skip
    counted: Counter[tuple[str, int]] = Counter()
    for topic, partition, record in written(made.outputs):
        if topic != NAMES.results:
            source = Source(topic, partition, record.offset)
            read = read_work(source, record.key, record.value, record.headers, express=False)
            counted[topic.removeprefix("t.").removesuffix(".express"), partition] += read.mflop
        else:
            assert b"counts_work" not in record.value
    work = made.headcounts[REQUESTS].counts().work
    assert {(p, n): mflop for p, row in work.items() for n, mflop in enumerate(row) if mflop} == {
        place: mflop for place, mflop in counted.items() if mflop
    }
    assert counted.total() == 2_500 + 4_000 + 100 + MFLOP_MAX


def test_work_is_added_to_what_was_counted_before() -> None:
    before = RouterCounts({"gpu": (1, 0, 2)}, consumed=3, work={"gpu": (5, 0, 7), "cpu": (9,)})
    headcount = Headcount(before)
    assert headcount.counts() == before
    add_up(headcount.work, "gpu", 3, 30)
    add_up(headcount.work, "cpu", 0, 1)
    add_up(headcount.work, "npu", 2, 0)
    assert headcount.counts().work == {"gpu": (5, 0, 7, 30), "cpu": (10,)}


def test_the_same_id_with_other_bytes_is_a_conflict() -> None:
    made = plan(Raw(0, request()), Raw(1, request(tenant="b")))
    assert made.deaths == {"conflict": 1}


def test_a_retry_is_not_a_duplicate_of_its_first_attempt_and_keeps_its_origin() -> None:
    at = desk()
    plan(Raw(0, request()), at=at)
    passage = Passage("r1", Origin("t.requests", 2, 0), NOW, attempt=2,
                      excluded=(Exclusion("gpu-1", NOW + 5000),))  # fmt: skip
    made = plan(Raw(3, request(), headers=encode_passage(passage)), source=RETRY, at=at)
    [(_, _, record)] = written(made.outputs)
    ours = dict(record.headers)
    assert (ours[h.ATTEMPT], ours[h.ORIGIN]) == (b"2", b"t.requests/2/0")
    assert made.next == [-1, 4]


def test_a_request_that_every_node_refused_ends_with_their_words_and_without_their_headers() -> (
    None
):
    at = desk()
    at.view.mode = Mode.NORMAL
    at.view.load(snapshot(free("gpu-1", "cpu-1", "npu-1")), {})
    names = ("gpu-1", "cpu-1", "npu-1")
    said = {"gpu-1": "model-not-found: no m", "cpu-1": "adapter-not-found: no a"}
    passage = Passage(
        "r1", Origin("t.requests", 2, 0), NOW, attempt=4,
        excluded=tuple(Exclusion(name, h.FOR_GOOD) for name in names),
        refusals=(
            Refusal("gone", "overloaded: 429"),
            *(Refusal(name, said.get(name, said["cpu-1"])) for name in names),
        ),
    )  # fmt: skip
    made = plan(Raw(3, request(), headers=encode_passage(passage)), source=RETRY, at=at)
    [(topic, _, record)] = written(made.outputs)
    assert topic == "t.results"
    assert not {h.EXCLUDED, h.REFUSED} & dict(record.headers).keys()
    error = orjson.loads(record.value)["error"]
    assert error == {
        "category": "unroutable",
        "message": "cpu: every live node refused the request; "
        "npu: every live node refused the request; gpu: every live node refused the request; "
        "gpu-1 said model-not-found: no m; cpu-1, npu-1 said adapter-not-found: no a",
    }


def test_a_fault_in_the_policy_is_a_dead_letter_and_the_next_record_flows() -> None:
    class Faulty:
        name = "faulty"

        def decide(self, *_: object) -> object:
            raise ZeroDivisionError

    at = desk()
    object.__setattr__(at, "policy", Faulty())
    made = plan(Raw(0, request("a")), Raw(1, b"{"), at=at)
    assert made.deaths == {"internal": 1, "not-json": 1}
    assert made.next[REQUESTS] == 2


def break_writing_to_pools(monkeypatch: pytest.MonkeyPatch, broken: Callable[[Any], bool]) -> None:
    """Let the writing of a routed record fail where `broken` says so of its key."""
    add = Destination.add

    def faulty(self: Destination, key: Any, value: Any, headers: Any, timestamp_ms: Any) -> None:
        if h.DECISION in dict(headers) and broken(key):
            raise ZeroDivisionError
        add(self, key, value, headers, timestamp_ms)

    monkeypatch.setattr(Destination, "add", faulty)


def test_a_fault_while_writing_is_a_dead_letter_and_the_request_may_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = {b"bad"}
    break_writing_to_pools(monkeypatch, lambda key: key in bad)
    at = desk()
    made = plan(Raw(0, request("a"), key=b"bad"), Raw(1, request("b")), at=at)
    assert made.deaths == {"internal": 1}
    assert [row.outcome for row in made.rows] == ["dead:internal", "blind"]
    assert all(row.features is not None for row in made.rows)  # its load was counted: it replays
    counts = made.headcounts[REQUESTS].counts()
    assert (counts.dead, sum(map(sum, counts.routed.values())), counts.balanced) == (1, 1, True)
    bad.clear()
    again = plan(Raw(2, request("a"), key=b"bad"), Raw(3, request("b")), at=at)
    assert (again.duplicates, [row.outcome for row in again.rows]) == (1, ["blind", "duplicate"])


def test_a_fault_in_making_headers_is_a_dead_letter_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(request_id: str, *_: object) -> list[tuple[str, bytes | None]]:
        raise ZeroDivisionError(request_id)

    monkeypatch.setattr(intake, "encode_first_passage", faulty)
    made = plan(Raw(0, request("a")))
    assert (made.deaths, made.next[REQUESTS]) == ({"internal": 1}, 1)


def test_a_repeat_of_what_could_not_be_written_is_no_repeat_of_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_writing_to_pools(monkeypatch, lambda _key: True)
    made = plan(Raw(0, request("a")), Raw(1, request("a")))
    assert (made.deaths, made.duplicates) == ({"internal": 2}, 0)
    assert [topic for topic, _, _ in written(made.outputs)] == ["t.dead-letter"] * 2
    assert made.headcounts[REQUESTS].counts().balanced


def test_a_batch_takes_no_more_than_a_transaction_holds() -> None:
    queue = queued(Raw(n, request(str(n))) for n in range(RECORDS_MAX + 1))
    made = plan_queue(queue)
    assert (len(made.rows), queue.records) == (RECORDS_MAX, 1)


def test_large_requests_cut_a_batch_by_bytes() -> None:
    queue = queued(Raw(n, request(str(n), blob="x" * 900_000)) for n in range(10))
    made = plan_queue(queue)
    assert 0 < len(made.rows) < 10


def test_the_decisions_of_the_wordiest_batch_stay_under_a_mebibyte() -> None:
    requires = {"operators": ["o"] * 64, "features": ["f"] * 50}
    queue = queued(Raw(n, request(str(n), requires=requires)) for n in range(1000))
    rows = plan_queue(queue).rows
    assert len(rows) > 800
    record = DecisionsRecord(
        router="router", sequence=1, partition=0, first=(0, -1), next=(1, -1), counts=EMPTY,
        policy="overflow", mode="blind", threshold=10, now_ms=NOW,
        view=ViewInputs(None, 0.0, registered=bytes(PACKED_BYTES_MAX)), rows=rows,
        bound=[("c" * 256, "gpu", "gpu-1")] * (STATED_BYTES_MAX // 264),
    )  # fmt: skip
    snapshot_bytes = 200 * 1024
    assert len(encode_decisions(record)) + snapshot_bytes < 1 << 20
