"""Records that a topic takes only compressed end in dead letters that a topic takes as they are."""

from __future__ import annotations

from schemas import headers as h
from schemas.headers import Origin, Passage, encode_passage
from schemas.topics import RECORD_BYTES_MAX
from streams.router.plan import RETRY
from tests.unit.test_router_batch import Raw, plan, request, written


def sizes(made: object) -> list[int]:
    return [
        len(bytes(batch._build()))
        for _, batches in made.batches()  # type: ignore[attr-defined]
        for batch in batches
    ]


def test_a_bomb_is_buried_as_its_coordinates() -> None:
    made = plan(Raw(7, b"\0" * (5 * 2**20)))
    [(topic, _, record)] = written(made.outputs)
    assert topic == "t.dead-letter"
    assert (record.key, record.value) == (None, None)  # type: ignore[attr-defined]
    assert dict(record.headers)[h.ORIGIN] == b"t.requests/2/7"  # type: ignore[attr-defined]
    assert max(sizes(made.outputs)) < RECORD_BYTES_MAX


def test_a_retry_larger_than_a_request_is_buried() -> None:
    ours = encode_passage(Passage("r", Origin("t.requests", 2, 5), 1))
    made = plan(Raw(7, request("r", pad="x" * (5 * 2**20)), headers=list(ours)), source=RETRY)
    assert list(made.deaths) == ["too-large"]
    assert max(sizes(made.outputs)) < RECORD_BYTES_MAX
