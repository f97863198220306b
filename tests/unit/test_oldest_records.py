"""When a pool record arrived: as its first router stamped it, else when it was written."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from aiokafka.structs import TopicPartition

from runtime.kafka.records import Decoded, Undecodable
from streams.control.oldest import Firsts, arrived_at_ms

GPU, CPU = TopicPartition("t.gpu", 0), TopicPartition("t.cpu", 1)


@dataclass(frozen=True)
class Stamped:
    """A record with one header of ours."""

    stamp: bytes | None
    offset: int = 5
    timestamp: int = 900
    key: bytes | None = None
    value: bytes | None = None

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        return (("overspill-arrived-at", self.stamp),)


@pytest.mark.parametrize(
    ("stamp", "arrived_ms"),
    [(b"777", 777), (None, 900), (b"", 900), (b"-5", 900), (b"soon", 900), (b"9" * 5_000, 900)],
)
def test_a_stamp_that_is_no_time_counts_for_nothing(stamp: bytes | None, arrived_ms: int) -> None:
    assert arrived_at_ms(Stamped(stamp)) == arrived_ms
    assert arrived_at_ms(Undecodable(5, 900, "broken")) == 900


def test_it_steps_over_markers_and_takes_the_first_record_of_each_place() -> None:
    firsts = Firsts({GPU: 3, CPU: 8})
    firsts.deliver(GPU, 3, Decoded([], next_offset=5))
    assert firsts.wanted() == {GPU: 5, CPU: 8}
    firsts.deliver(GPU, 3, Decoded([Stamped(b"111")], next_offset=6))  # asked for before that
    firsts.deliver(GPU, 5, Decoded([Stamped(b"777"), Stamped(b"888")], next_offset=7))
    assert firsts.wanted() == {CPU: 8}
    assert not firsts.complete.is_set()
    firsts.out_of_range(CPU, 8)
    assert firsts.complete.is_set()
    assert firsts.arrivals == {GPU: 777}
