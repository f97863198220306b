"""Nodes against a real broker: each pool record ends in exactly one record, whatever happens."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
from confluent_kafka.admin import AdminClient

from deploy.local.tiny_model import CONTEXT, MODEL_NAME, MODEL_PATH
from executors.backends.base import Backend, Call, Completion, SelfTest
from executors.backends.emulated import Emulated
from executors.backends.llama import Llama
from executors.backends.profile import Profile
from executors.backends.registry import make_backend
from executors.outcome import RESULT_BYTES_MAX
from executors.settings import NodeOptions
from schemas.errors import BackendUnavailable
from schemas.headers import (
    ERROR_CATEGORY,
    FINISHED,
    FOR_GOOD,
    ORIGIN,
    Exclusion,
    Finished,
    decode_passage,
    split_headers,
)
from schemas.topics import executor_group
from tests import magika
from tests.conftest import RunningKafka
from tests.kafka.pool_place import PARTITIONS, PoolPlace, running
from tests.waiting import until

pytestmark = pytest.mark.kafka

NODE_PROCESS = """
import asyncio, sys
from executors.node import run_node
from executors.settings import NodeOptions
from runtime.metrics import Metrics
from runtime.settings import KafkaSettings, Settings
prefix, bootstrap = sys.argv[1:]
settings = Settings(prefix=prefix, kafka=KafkaSettings(bootstrap_servers=bootstrap))
options = NodeOptions(
    pool="gpu", backend="emulated", slots=4, node_id="n1", options={"profile": "fixed:100"}
)
connection = {"bootstrap_servers": bootstrap}
asyncio.run(run_node(settings, connection, options, Metrics("executor", "0")))
"""


class Recording(Emulated):
    """An emulated backend that keeps which calls began, and which were cancelled."""

    def __init__(self, run_ms: float) -> None:
        super().__init__(Profile(fixed_ms=run_ms), "bench")
        self.begun: Counter[str] = Counter()
        self.cancelled: list[str] = []

    async def infer(self, call: Call) -> Completion:
        self.begun[call.request_id] += 1
        try:
            return await super().infer(call)
        except asyncio.CancelledError:
            self.cancelled.append(call.request_id)
            raise


class Verbose(Emulated):
    """A backend whose answers have the size that the request's number says."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__(Profile(fixed_ms=0), "bench")
        self._sizes = sizes

    async def infer(self, call: Call) -> Completion:
        return Completion({"text": "x" * self._sizes[call.request_id]})


class Broken(Emulated):
    """A backend that fails its self-test."""

    async def self_test(self) -> SelfTest:
        raise BackendUnavailable("the golden answer is wrong; reinstall the engine")


@pytest.fixture
async def place(kafka: RunningKafka) -> PoolPlace:
    made = PoolPlace(kafka.bootstrap_servers)
    await made.create()
    return made


@asynccontextmanager
async def node_process(place: PoolPlace) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a node as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", NODE_PROCESS, place.settings.prefix,
        place.connection["bootstrap_servers"],
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_record_in_the_pool_topic_yields_one_result_with_real_model_text(
    place: PoolPlace,
) -> None:
    binary = (("trace", b"\x00\xff"), ("none", None), ("trace", b"again"))
    engine = Llama(MODEL_NAME, MODEL_PATH, slots=2, context_tokens=CONTEXT, threads=1)
    async with running(place.node(engine)):
        await place.route(range(1), headers=binary, model=MODEL_NAME)
        await until(lambda: place.all_ended(1))
    (record,) = await place.read(place.names.results)
    result = orjson.loads(record.value or b"")
    assert (result["id"], result["status"], record.key) == ("r0", "ok", b"r0")
    assert result["output"]["choices"][0]["text"]
    assert result["usage"]["completion_tokens"] == 8
    assert result["served_by"]["engine"].startswith("llama.cpp")
    assert result["served_by"]["emulated"] is False
    theirs, ours = split_headers(record.headers)
    assert tuple(theirs) == binary
    assert ours[ORIGIN] == f"{place.names.requests}/0/0".encode()
    assert Finished.decode(ours[FINISHED]) == Finished(place.names.pool("gpu"), 0, 0, 1)
    assert await place.finished() == (1, 0)


async def test_express_and_ordinary_work_both_end(place: PoolPlace) -> None:
    async with running(place.node(Recording(1))):
        await place.route(range(20))
        await place.route(range(20, 40), topic=place.names.express("gpu"))
        await until(lambda: place.all_ended(40))
    assert set((await place.results()).values()) == {1}
    assert await place.finished() == (40, 0)


async def test_poison_becomes_a_dead_letter_and_its_partition_moves_on(place: PoolPlace) -> None:
    async with running(place.node(Recording(1))):
        await place.route(range(1), value=b"not json")
        await place.route(range(2, 4))
        await until(lambda: place.all_ended(3))
    (letter,) = await place.read(place.names.dead_letter)
    assert letter.value == b"not json"
    assert dict(letter.headers)[ERROR_CATEGORY] == b"not-json"
    assert await place.finished() == (3, 0)


async def test_a_refusal_goes_to_the_retry_partition_of_its_origins_number(
    place: PoolPlace,
) -> None:
    engine = Llama(MODEL_NAME, MODEL_PATH, slots=2, context_tokens=CONTEXT, threads=1)
    async with running(place.node(engine)):
        await place.route(range(1, 2), model="another", headers=(("mine", b"\x01"),))
        await until(lambda: place.all_ended(1))
    (record,) = await place.read(place.names.retry)
    assert (record.partition, record.key) == (1, b"r1")
    theirs, ours = split_headers(record.headers)
    assert theirs == [("mine", b"\x01")]
    passage = decode_passage(ours)
    assert (passage.attempt, passage.excluded) == (2, (Exclusion("n1", FOR_GOOD),))
    assert (passage.origin.partition, passage.origin.offset) == (1, 1)
    assert await place.finished() == (1, 0)


async def test_kill_9_in_mid_load_and_restart_give_each_request_one_result(
    place: PoolPlace,
) -> None:
    total = 80
    await place.route(range(total))
    async with node_process(place) as first:

        async def in_the_middle() -> bool:
            done, unfinished = await place.finished()
            if not (done > 5 and unfinished):
                return False
            report = await place.last_report()
            return report is not None and report.busy > 0

        await until(in_the_middle)
        first.send_signal(signal.SIGKILL)
        assert await first.wait() == -signal.SIGKILL
    done, unfinished = await place.finished()
    assert done < total
    assert unfinished > 0
    async with node_process(place) as second:
        await until(lambda: place.all_ended(total), within_s=40)
        asked = time.monotonic()
        second.send_signal(signal.SIGTERM)
        assert await second.wait() == 0
        assert time.monotonic() - asked < 15
    results = await place.results()
    assert set(results) == {f"r{number}" for number in range(total)}
    assert set(results.values()) == {1}


async def test_work_on_a_partition_that_stays_goes_on_through_a_rebalance(
    place: PoolPlace,
) -> None:
    first, second = Recording(4000), Recording(1)
    old, new = place.node(first, slots=8), place.node(second, name="n2")
    async with running(old):
        await place.route(range(2 * PARTITIONS))
        await until(lambda: len(first.begun) == 2 * PARTITIONS)
        async with running(new):
            await until(lambda: place.all_ended(2 * PARTITIONS))
            reports = [await place.last_report("n1"), await place.last_report("n2")]
    kept, moved = ((report.partitions if report else ()) for report in reports)
    assert sorted([*kept, *moved]) == list(range(PARTITIONS))
    assert len(kept) == len(moved) == 1
    of_kept = {f"r{number}" for number in range(kept[0], 2 * PARTITIONS, PARTITIONS)}
    assert set(second.begun).isdisjoint(of_kept)
    assert set(first.cancelled).isdisjoint(of_kept)
    assert len(first.cancelled) == PARTITIONS
    assert set((await place.results()).values()) == {1}
    assert await place.finished() == (2 * PARTITIONS, 0)


async def test_lost_offsets_are_rebuilt_from_what_was_written(place: PoolPlace) -> None:
    async with running(place.node(Recording(1))):
        await place.route(range(10))
        await until(lambda: place.all_ended(10))
    before = await place.counts()
    group = executor_group(place.settings.prefix, "gpu")
    admin = AdminClient({"bootstrap.servers": place.connection["bootstrap_servers"]})
    await asyncio.to_thread(admin.delete_consumer_groups([group])[group].result)
    assert await place.counts() == {}
    again = Recording(1)
    async with running(place.node(again)):
        await place.route(range(10, 14))
        await until(lambda: place.all_ended(14))
    assert set(again.begun) == {f"r{number}" for number in range(10, 14)}
    assert set((await place.results()).values()) == {1}
    assert sum(c.finished for c in before.values()) == 10
    assert await place.finished() == (14, 0)


async def test_the_largest_result_passes_the_broker_and_a_larger_one_is_an_error(
    place: PoolPlace,
) -> None:
    sizes = {"r0": RESULT_BYTES_MAX - 2000, "r1": RESULT_BYTES_MAX + 1}
    async with running(place.node(Verbose(sizes))):
        await place.route(range(2))
        await until(lambda: place.all_ended(2))
    found = {
        result["id"]: result["error"] and result["error"]["category"]
        for record in await place.read(place.names.results)
        for result in [orjson.loads(record.value or b"")]
    }
    assert found == {"r0": None, "r1": "result-too-large"}


async def test_a_node_reports_what_it_is_and_leaves_a_tombstone(place: PoolPlace) -> None:
    async with running(place.node(Recording(1), slots=3)):

        async def at_work() -> bool:
            report = await place.last_report()
            # A partition is its own before it is open.
            owned = report is not None and report.partitions == tuple(range(PARTITIONS))
            return owned and not report.blocked

        await until(at_work)
        report = await place.last_report()
        assert report is not None
        assert (report.pool, report.slots, report.state, report.blocked) == ("gpu", 3, "ready", ())
        assert report.emulated
        assert report.latency_mean_ms == 1
    records = await place.read(place.names.nodes)
    assert (records[-1].key, records[-1].value) == (b"n1", None)


async def test_a_backend_that_fails_its_self_test_never_joins_and_says_why(
    place: PoolPlace,
) -> None:
    node = place.node(Broken(Profile(fixed_ms=1), "bench"))
    with pytest.raises(BackendUnavailable, match="golden"):
        await node.run()
    report = await place.last_report()
    assert report is not None
    assert report.state == "refused"
    assert "golden answer" in report.reason
    assert report.partitions == ()


async def test_reports_tell_what_a_device_proved_and_why_one_that_answers_nonsense_is_refused(
    place: PoolPlace, tmp_path: Path
) -> None:
    told = {"model_name": magika.NAME, "golden": str(magika.GOLDEN)}

    def on(model: Path) -> Backend:
        options = {**told, "model_path": str(model)}
        return make_backend(NodeOptions(pool="gpu", backend="onnx", slots=2, options=options))

    async with running(place.node(on(magika.PATH))):
        report = await place.last_report()
    assert report is not None
    (capability,) = report.capabilities
    assert (capability.model, capability.max_concurrency) == (magika.NAME, 2)
    assert capability.golden_error is not None
    assert capability.golden_error < 0.01
    broken = place.node(on(magika.corrupted(tmp_path / "corrupted.onnx")))
    with pytest.raises(BackendUnavailable, match="golden error"):
        await broken.run()
    report = await place.last_report()
    assert report is not None
    assert (report.state, report.capabilities) == ("refused", ())
    assert "magika on CPUExecutionProvider answers its golden input with a golden error" in (
        report.reason
    )
