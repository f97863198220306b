"""Puts outcomes and ledgers together into one transaction.

Decides what goes in and adds the headers from which lost offsets are rebuilt; it neither sends nor
changes a ledger, so a transaction of unknown end can be put together again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from executors.ledger import Done, Ledger
from executors.outcome import Outcome
from runtime.kafka.offsets import Committed
from runtime.kafka.outputs import Outputs
from runtime.kafka.partitioning import partition_of
from schemas.headers import FINISHED, LEDGER, Finished
from schemas.metadata import encode_finished
from schemas.topics import MIB

RECORDS_MAX = 500
"""Records a transaction: beyond it a longer transaction delays readers more than it saves."""
BYTES_MAX = 4 * MIB
"""Bytes after which a transaction takes no more: it must end within 50 ms."""


class Batch(NamedTuple):
    """One transaction: what it writes, what it commits, and which outcomes are in it."""

    outputs: Outputs
    offsets: dict[TopicPartition, Committed]
    outcomes: tuple[Outcome, ...]

    def done(self) -> dict[TopicPartition, Done]:
        """Return what it finishes, by pool partition."""
        return _by_partition(self.outcomes)


def take(pending: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return as many of the outcomes, from the first, as fit in one transaction; at least one."""
    taken: list[Outcome] = []
    size = 0
    for outcome in pending:
        if len(taken) == RECORDS_MAX or size >= BYTES_MAX:
            break
        taken.append(outcome)
        size += outcome.size
    return tuple(taken)


def make_batch(
    outcomes: tuple[Outcome, ...],
    ledgers: Mapping[TopicPartition, Ledger],
    prefix: str,
    partitions: Callable[[str], int],
) -> Batch:
    """Return the transaction that writes these outcomes and commits all ledgers after them.

    Args:
        outcomes: what to write, each of a partition in `ledgers`; may be empty.
        ledgers: of all partitions of one lane.
        prefix: of topic names.
        partitions: says how many partitions a topic has.
    """
    done = _by_partition(outcomes)
    offsets: dict[TopicPartition, Committed] = {}
    counted: dict[TopicPartition, int] = {}
    for partition, ledger in ledgers.items():
        leaving = done.get(partition, Done(()))
        after = ledger.after(*leaving)
        offsets[partition] = Committed(after.committed, encode_finished(after))
        counted[partition] = after.finished - len(leaving.offsets)
    outputs = Outputs()
    for outcome in outcomes:
        source = outcome.source
        partition = TopicPartition(source.topic, source.partition)
        counted[partition] += 1
        headers = [
            *outcome.headers,
            (FINISHED, Finished(*source, counted[partition]).encode()),
        ]
        if source.offset == done[partition].offsets[-1]:
            headers.append((LEDGER, offsets[partition].metadata.encode()))
        topic = prefix + outcome.topic
        number, width = outcome.partition, partitions(topic)
        # An origin that names a partition which is not there (no router of ours wrote it) would
        # fail the transaction, and with it this lane, again and again.
        if number is None or number >= width:
            number = partition_of(outcome.key, outcome.origin, width)
        outputs.add(topic, number, outcome.key, outcome.value, headers)
    return Batch(outputs, offsets, outcomes)


def _by_partition(outcomes: tuple[Outcome, ...]) -> dict[TopicPartition, Done]:
    leaving: dict[TopicPartition, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        source = outcome.source
        leaving[TopicPartition(source.topic, source.partition)].append(outcome)
    return {
        partition: Done(
            tuple(outcome.source.offset for outcome in ending),
            dead=sum(outcome.dead for outcome in ending),
            expired=sum(outcome.expired for outcome in ending),
            mflop=sum(outcome.mflop for outcome in ending),
        )
        for partition, ending in leaving.items()
    }
