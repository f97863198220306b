"""Records of one transaction, encoded as they are added."""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.structs import TopicPartition

from runtime.kafka.outputs import BATCH_BYTES, Outputs


def encoded(outputs: Outputs) -> dict[TopicPartition, list[list[tuple[object, ...]]]]:
    return {
        tp: [
            [(r.key, r.value, r.headers) for r in DefaultRecordBatch(bytes(batch._build()))]
            for batch in batches
        ]
        for tp, batches in outputs.batches()
    }


def test_records_keep_their_bytes_and_their_order() -> None:
    outputs = Outputs()
    outputs.add("gpu", 0, b"k", b"v1", [("a", b"1"), ("a", None), ("\u00fc", b"")])
    outputs.add("cpu", 3, None, b"v2")
    outputs.add("gpu", 0, b"k", b"v3", (("b", b"2"),))
    assert encoded(outputs) == {
        TopicPartition("gpu", 0): [
            [
                (b"k", b"v1", [("a", b"1"), ("a", None), ("\u00fc", b"")]),
                (b"k", b"v3", [("b", b"2")]),
            ]
        ],
        TopicPartition("cpu", 3): [[(None, b"v2", [])]],
    }
    assert outputs.records == 3


def test_a_record_may_have_neither_key_nor_value() -> None:
    outputs = Outputs()
    outputs.add("dead-letter", 0, None, None, [("overspill-origin", b"x")])
    assert encoded(outputs) == {
        TopicPartition("dead-letter", 0): [[(None, None, [("overspill-origin", b"x")])]]
    }


def test_a_full_batch_is_followed_by_another() -> None:
    outputs = Outputs()
    for _ in range(5):
        outputs.add("gpu", 0, None, b"v" * (BATCH_BYTES // 2 - 100))
    (batches,) = encoded(outputs).values()
    assert [len(batch) for batch in batches] == [2, 2, 1]


def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    outputs = Outputs()
    outputs.add("gpu", 0, None, b"small")
    outputs.add("gpu", 0, None, b"v" * 3_000_000)
    outputs.add("gpu", 0, None, b"small")
    (batches,) = encoded(outputs).values()
    assert [len(batch) for batch in batches] == [1, 1, 1]


def test_the_timestamp_given_is_the_timestamp_written() -> None:
    outputs = Outputs()
    outputs.add("gpu", 0, None, b"v", timestamp_ms=1_700_000_000_123)
    ((_, (batch,)),) = outputs.batches()
    (record,) = DefaultRecordBatch(bytes(batch._build()))
    assert record.timestamp == 1_700_000_000_123
