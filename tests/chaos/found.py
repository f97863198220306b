"""What a fresh reader finds after a run: all committed records from offset 0, and the counts."""

from __future__ import annotations

from collections import Counter

from aiokafka.structs import TopicPartition

from deploy.client.judge import place_of, repeats_in, request_of, standing
from deploy.client.terminal import read_terminal
from runtime.kafka.topics import partition_counts
from schemas.decisions import DUPLICATE, decode_decisions
from schemas.metadata import decode_finished, decode_router
from schemas.outcomes import ErrorCategory, Status
from streams.control.probe import Probe
from tests.chaos.books import Place, entries
from tests.chaos.history import HistoryFile
from tests.chaos.traffic import HEADER
from tests.kafka.reading import Written, read_all
from tests.kafka.system import System


async def write_down(system: System, history: HistoryFile) -> None:
    """Write what topics and committed offsets hold into the history."""
    names = system.names
    pools = [topic for pool in system.settings.pools for topic in names.of_pool(pool)]
    records: dict[Place, int] = {}
    endings: Counter[str] = Counter()
    for record in await _read(system, names.requests, records):
        number = dict(record.headers).get(HEADER)
        history.at("request", place_of(record), number=None if number is None else int(number))
    retried = {place_of(r): request_of(r) for r in await _read(system, names.retry, records)}
    for topic in pools:
        await _read(system, topic, records)
    letters = await _read(system, names.dead_letter, records)
    results = await _read(system, names.results, records)
    for end in standing(read_terminal(record, names) for record in (*letters, *results)):
        history.at("end", end.origin, is_letter=end.result is None)
        if end.result is None:
            endings["dead"] += 1
        elif end.result.status is Status.EXPIRED:
            endings["expired"] += 1
        elif end.result.error and end.result.error.category is ErrorCategory.UNROUTABLE:
            endings["unroutable"] += 1
    for record in await _read(system, names.decisions, records):
        rows = decode_decisions(record.value or b"").rows
        endings["decided"] += len(rows)
        endings["duplicate"] += sum(row.outcome == DUPLICATE for row in rows)
        for place in repeats_in(record.value or b"", names):
            history.at("repeat", retried.get(place, place))
    await _write_books(system, history, records, endings)


async def _read(system: System, topic: str, records: dict[Place, int]) -> list[Written]:
    widths = await partition_counts(system.connection, [topic])
    partitions = [TopicPartition(topic, number) for number in range(widths[topic])]
    found = await read_all(system.connection, partitions)
    counted = Counter(record.partition for record in found)
    short = topic.removeprefix(system.settings.prefix)
    records.update({(short, tp.partition): counted[tp.partition] for tp in partitions})
    return found


async def _write_books(
    system: System, history: HistoryFile, records: dict[Place, int], endings: Counter[str]
) -> None:
    probe = Probe(system.connection, system.names, system.settings.pools)
    try:
        _, reading = await probe.read()
    finally:
        await probe.close()
    prefix = system.settings.prefix
    routers = {
        (topic.removeprefix(prefix), partition): decode_router(at.metadata)
        for (topic, partition), at in reading.routed.items()
        if at is not None and at.metadata
    }
    nodes = {
        (topic.removeprefix(prefix), partition): decode_finished(at.metadata)
        for (topic, partition), at in reading.finished.items()
        if at is not None and at.metadata
    }
    for entry in entries(routers, nodes, records, endings):
        history.note("entry", **entry._asdict())
