"""What a fresh reader finds after a run: all committed records from offset 0, and the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator

from aiokafka.structs import TopicPartition

from deploy.client.judge import place_of, repeats_in, request_of, standing
from deploy.client.terminal import Terminal, read_terminal
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan
from runtime.kafka.topics import partition_counts
from schemas.decisions import DUPLICATE, decode_decisions
from schemas.metadata import decode_finished, decode_router
from streams.control.probe import Probe
from tests.chaos.books import Place, entries
from tests.chaos.history import HistoryFile
from tests.chaos.traffic import HEADER
from tests.kafka.reading import Written
from tests.kafka.system import System


async def write_down(system: System, history: HistoryFile) -> None:
    """Write what topics and committed offsets hold into the history."""
    names = system.names
    records: dict[Place, int] = {}
    endings: Counter[str] = Counter()
    async for record in _read(system, names.requests, records):
        number = dict(record.headers).get(HEADER)
        history.at("request", place_of(record), number=None if number is None else int(number))
    retried = {place_of(r): request_of(r) async for r in _read(system, names.retry, records)}
    for pool in system.settings.pools:
        for topic in names.of_pool(pool):
            async for _ in _read(system, topic, records):
                pass  # only counted
    ends = [
        _lean(read_terminal(record, names))
        for topic in (names.dead_letter, names.results)
        async for record in _read(system, topic, records)
    ]
    for end in standing(ends):
        how = _how(end)
        history.at("end", end.origin, is_letter=end.result is None, how=how)
        endings["dead" if end.result is None else how] += 1
    async for record in _read(system, names.decisions, records):
        rows = decode_decisions(record.value or b"").rows
        endings["decided"] += len(rows)
        endings["duplicate"] += sum(row.outcome == DUPLICATE for row in rows)
        for place in repeats_in(record.value or b"", names):
            history.at("repeat", retried.get(place, place))
    await _write_books(system, history, records, endings)


def _how(end: Terminal) -> str:
    if end.result is None:
        return end.category
    return end.result.error.category.value if end.result.error else end.result.status.value


def _lean(end: Terminal) -> Terminal:
    """Return it without what a backend wrote: all ends of a run are in memory at once."""
    if end.result is None:
        return end
    return end._replace(result=end.result.model_copy(update={"output": None}))


async def _read(
    system: System, topic: str, records: dict[Place, int]
) -> AsyncGenerator[Written, None]:
    """Yield a topic's committed records, partition after partition, and count them."""
    widths = await partition_counts(system.connection, [topic])
    partitions = [TopicPartition(topic, number) for number in range(widths[topic])]
    short = topic.removeprefix(system.settings.prefix)
    async with OffsetReader(system.connection) as offsets:
        begins, ends = await offsets.begin(partitions), await offsets.end(partitions)
    for tp in partitions:
        records[short, tp.partition] = 0
        async for record in scan(system.connection, tp, begins[tp], ends[tp]):
            records[short, tp.partition] += 1
            yield record


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
