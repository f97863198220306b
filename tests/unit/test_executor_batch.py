"""One transaction: what it writes, what it commits, and how lost offsets can be told from it."""

from __future__ import annotations

from dataclasses import replace

from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.structs import TopicPartition

from executors.batch import BYTES_MAX, RECORDS_MAX, Batch, make_batch, take
from executors.ledger import Done, Ledger
from executors.outcome import Outcome
from executors.work import Source
from runtime.kafka.outputs import Outputs
from schemas.headers import FINISHED, LEDGER, Finished, Origin
from schemas.metadata import FinishedCounts, decode_finished
from schemas.topics import DEAD_LETTER, RESULTS, RETRY

POOL = TopicPartition("p.gpu", 3)
EXPRESS = TopicPartition("p.gpu.express", 3)


def outcome(
    offset: int, topic: str = RESULTS, *, tp: TopicPartition = POOL, partition: int | None = None,
    key: bytes | None = b"k", value: bytes = b"v",
) -> Outcome:  # fmt: skip
    origin = Origin("p.requests", 1, offset)
    return Outcome(Source(tp.topic, tp.partition, offset), origin, topic, key, value, (), partition)


def ledgers(*offsets: int) -> dict[TopicPartition, Ledger]:
    pool = Ledger(FinishedCounts(10, 0))
    for offset in offsets:
        pool.enter(offset)
    return {POOL: pool, EXPRESS: Ledger(FinishedCounts(5, 0))}


def make(*outcomes: Outcome, entered: tuple[int, ...] = tuple(range(10))) -> Batch:
    return make_batch(tuple(outcomes), ledgers(*entered), "p.", lambda _: 4)


def written(outputs: Outputs) -> dict[tuple[str, int], list[dict[str, bytes | None]]]:
    found: dict[tuple[str, int], list[dict[str, bytes | None]]] = {}
    for tp, batches in outputs.batches():
        for batch in batches:
            raw = bytes(batch._build())
            records = [dict(record.headers) for record in DefaultRecordBatch(raw)]
            found.setdefault((tp.topic, tp.partition), []).extend(records)
    return found


def test_it_commits_the_ledgers_of_both_topics_as_they_are_after_it() -> None:
    batch = make(outcome(0), outcome(2), entered=(0, 1, 2))
    counts = {tp: decode_finished(said.metadata) for tp, said in batch.offsets.items()}
    assert counts[POOL] == FinishedCounts(12, 3, (1,))
    assert batch.offsets[POOL].offset == 1
    assert counts[EXPRESS] == FinishedCounts(5, 0)


def test_it_counts_dead_letters_and_expiries_among_the_finished() -> None:
    late = replace(outcome(1), expired=True)
    batch = make(outcome(0, DEAD_LETTER), late, outcome(2), outcome(3, RETRY, partition=0))
    counts = decode_finished(batch.offsets[POOL].metadata)
    assert (counts.finished, counts.dead, counts.expired) == (14, 1, 1)
    assert batch.done() == {POOL: Done((0, 1, 2, 3), dead=1, expired=1)}


def test_making_it_changes_no_ledger() -> None:
    before = ledgers(0, 1)
    make_batch((outcome(0),), before, "p.", lambda _: 4)
    assert before[POOL].counts == FinishedCounts(10, 2, (0, 1))


def test_results_go_by_key_and_refusals_to_their_own_partition() -> None:
    batch = make(
        outcome(0, key=b"same"),
        outcome(1, key=b"same"),
        outcome(2, RETRY, partition=3),
        outcome(3, DEAD_LETTER, key=None),
    )
    places = [(topic, partition) for topic, partition in written(batch.outputs)]
    assert [topic for topic, _ in places] == ["p.results", "p.retry", "p.dead-letter"]
    assert ("p.retry", 3) in places


def test_a_refusal_to_a_partition_that_is_not_there_goes_by_key() -> None:
    [(topic, partition)] = written(make(outcome(0, RETRY, partition=999)).outputs)
    assert topic == "p.retry"
    assert partition < 4


def test_every_record_says_which_place_it_finished_and_as_which_number() -> None:
    batch = make(outcome(4), outcome(1, RETRY, partition=0), outcome(7, DEAD_LETTER))
    said = [
        Finished.decode(headers[FINISHED] or b"")
        for records in written(batch.outputs).values()
        for headers in records
    ]
    assert said == [
        Finished("p.gpu", 3, 4, 11), Finished("p.gpu", 3, 1, 12), Finished("p.gpu", 3, 7, 13),
    ]  # fmt: skip


def test_the_last_record_of_a_partition_carries_what_was_committed() -> None:
    batch = make(outcome(4), outcome(1))
    first, last = next(iter(written(batch.outputs).values()))
    assert LEDGER not in first
    assert last[LEDGER] == batch.offsets[POOL].metadata.encode()


def test_without_outcomes_it_only_commits() -> None:
    batch = make()
    assert batch.outputs.records == 0
    assert set(batch.offsets) == {POOL, EXPRESS}


def test_a_transaction_is_bounded_in_records_and_bytes() -> None:
    assert len(take([outcome(0)] * 2000)) == RECORDS_MAX
    large = outcome(0, value=b"x" * (BYTES_MAX // 2))
    assert len(take([large] * 5)) == 2
    assert len(take([outcome(0, value=b"x" * BYTES_MAX)] * 2)) == 1
    assert take([]) == ()
