"""The model registry on a real broker: a change is seen whole or not at all, by one operator."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest
from aiokafka.structs import TopicPartition

from deploy.cli import main
from deploy.models.change import Author, Change, RegistryChanged, write_change
from lab.instruments.traffic import requests
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.transactions import FencedProducer, transactional_id
from schemas import headers as h
from schemas.control import ModelRecord, TypeSupport
from schemas.decisions import DecisionRow, decode_decisions
from schemas.metadata import FinishedCounts, decode_finished, encode_finished
from schemas.pools import ComputeType
from schemas.topics import executor_group
from streams.policy import View
from streams.registry import Registry, read_registry
from streams.router.feed import Feed
from streams.router.outlook import Outlook
from tests.conftest import RunningKafka
from tests.kafka.route_place import RoutePlace
from tests.waiting import until

pytestmark = pytest.mark.kafka
LONG = "x" * 100_000
"""Forty of these are four fetches: a change that none of them holds whole."""
HOT_S = 1.0
MODEL = "tiny-docs"
"""Of all requests made up here."""
EVERY_TYPE_LACKS_INT4 = {kind: TypeSupport(precisions=("fp16",)) for kind in ComputeType}

ALICE = Author("alice", "why not")


@pytest.fixture
async def place(kafka: RunningKafka) -> RoutePlace:
    made = RoutePlace(kafka.bootstrap_servers)
    await made.create()
    return made


async def registry_of(place: RoutePlace) -> Registry:
    async with OffsetReader(place.connection) as offsets:
        return await read_registry(place.connection, offsets, place.names)


def pinned(name: str, *types: ComputeType) -> ModelRecord:
    return ModelRecord(name=name, pinned=types)


async def test_a_change_is_written_with_a_revision_that_only_grows(place: RoutePlace) -> None:
    both = Change([pinned("a", ComputeType.CPU), pinned("b", ComputeType.NPU)])
    first = await write_change(place.connection, place.names, both, ALICE)
    same = await write_change(place.connection, place.names, both, Author("bob"))
    assert (first.revision, same) == (1, first)
    assert {name: model.revision for name, model in first.models.items()} == {"a": 1, "b": 1}
    changed = Change([pinned("a", ComputeType.GPU)], ["b", "unknown"])
    await write_change(place.connection, place.names, changed, Author("bob", "cheaper"), seen=1)
    after = await registry_of(place)
    assert after.head is not None
    assert (after.revision, after.head.who, after.head.why) == (2, "bob", "cheaper")
    assert after.models == {"a": pinned("a", ComputeType.GPU).model_copy(update={"revision": 2})}
    await write_change(place.connection, place.names, Change(drop=["a"]), ALICE)
    assert (await registry_of(place)).models == {}
    assert (await registry_of(place)).revision == 3


async def test_of_two_operators_the_one_who_has_not_seen_the_others_change_is_refused(
    place: RoutePlace,
) -> None:
    async def change(name: str, seen: int) -> Registry:
        put = Change([pinned(name, ComputeType.CPU)])
        return await write_change(place.connection, place.names, put, Author(name), seen=seen)

    await change("alice", 0)
    with pytest.raises(RegistryChanged, match=r"has revision 1 \(by alice\), not 0"):
        await change("bob", 0)
    outcomes = await asyncio.gather(change("bob", 1), change("carol", 1), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, RegistryChanged)]
    after = await registry_of(place)
    assert (len(refused), after.revision) == (1, 2)
    assert sorted(after.models) == ["alice", after.head.who if after.head else ""]


async def test_an_operator_who_is_overtaken_while_he_writes_is_refused(
    place: RoutePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = FencedProducer.commit

    async def overtaken(producer: FencedProducer, *written: object) -> None:
        other = FencedProducer(place.connection, f"{place.names.prefix}models")
        await other.open()
        await other.close()
        await commit(producer, *written)  # type: ignore[arg-type]

    monkeypatch.setattr(FencedProducer, "commit", overtaken)
    with pytest.raises(RegistryChanged, match="at this moment"):
        await write_change(
            place.connection, place.names, Change(drop=["x"], put=[pinned("a")]), ALICE
        )
    assert (await registry_of(place)).revision == 0


async def test_a_router_learns_a_change_whole_and_within_a_second(place: RoutePlace) -> None:
    many = [f"m{number}" for number in range(40)]
    learnt: list[Registry] = []

    class Listener(Outlook):
        def learn(self, registry: Registry) -> None:
            super().learn(registry)
            learnt.append(registry)

    listener = Listener(
        View(place.settings.pools, "router", dict.fromkeys(("gpu", "cpu", "npu"), 1))
    )
    following = asyncio.ensure_future(Feed(place.connection, place.names, listener).run())
    try:
        await until(lambda: bool(learnt))
        for revision, kind in enumerate((ComputeType.CPU, ComputeType.NPU), 1):
            put = [ModelRecord(name=name, pinned=(kind,), operators=(LONG,)) for name in many]
            await write_change(place.connection, place.names, Change(put), ALICE)
            await until(lambda: listener.models_revision == revision, HOT_S)  # noqa: B023
    finally:
        following.cancel()
    for registry in learnt:
        assert len({(model.pinned, model.revision) for model in registry.models.values()}) <= 1
        assert len(registry.models) == (len(many) if registry.head else 0)


async def test_a_running_router_obeys_a_change_and_says_which_revision_it_decided_by(
    place: RoutePlace,
) -> None:
    anywhere = Change([ModelRecord(name=MODEL)])
    nowhere = Change([ModelRecord(name=MODEL, precision="int4", types=EVERY_TYPE_LACKS_INT4)])
    await write_change(place.connection, place.names, anywhere, ALICE)
    await place.request(requests(8))
    async with place.router():
        await until(lambda: consumed(place, 8))
        await write_change(place.connection, place.names, nowhere, ALICE)
        sent = 8
        while not any(row.outcome == "unroutable" for _, row in await rows(place)):
            await place.request(requests(4, seed=sent))
            sent += 4
            await until(lambda: consumed(place, sent))  # noqa: B023
    decided = await rows(place)
    assert {revision for revision, _ in decided} == {1, 2}  # not 0: it reads before it routes
    for revision, row in decided:
        assert (row.outcome == "unroutable") == (revision == 2)
    result = orjson.loads((await place.read(place.names.results))[0].value or b"")
    assert result["error"] == {
        "category": "unroutable",
        "message": "cpu: precision int4 is not run on cpu; npu: precision int4 is not run on npu; "
        "gpu: precision int4 is not run on gpu",
    }


async def consumed(place: RoutePlace, count: int) -> bool:
    return await place.consumed() == count


async def rows(place: RoutePlace) -> list[tuple[int, DecisionRow]]:
    records = [decode_decisions(r.value or b"") for r in await place.read(place.names.decisions)]
    return [(record.view.models, row) for record in records for row in record.rows]


async def test_a_dry_run_finds_what_is_undecided_queued_or_bound_and_nothing_that_is_finished(
    place: RoutePlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def batch(*names: str) -> list[bytes]:
        said = {"model_name": "m", "payload": {"prompt": "hi"}}
        return [
            orjson.dumps({**said, "id": name, "conversation_id": f"c-{name}"}) for name in names
        ]

    await place.request(batch("finished", "queued"), partition=0)
    async with place.router():
        await until(lambda: consumed(place, 2))
    await place.request([b"no request", *batch("undecided")], partition=0)
    places = {}
    for topic in place.pool_topics:
        for record in await place.read(topic):
            places[dict(record.headers)[h.REQUEST_ID]] = record
    done = places[b"finished"]
    tp = TopicPartition(done.topic, done.partition)
    rest = [r.offset for r in places.values() if (r.topic, r.partition) == tp and r is not done]
    ledger = encode_finished(FinishedCounts(1, done.offset + 2, tuple(rest)))
    await commit(place, executor_group(place.settings.prefix, "gpu"), tp, ledger, rest)

    file = tmp_path / "m.toml"
    file.write_text('[[models]]\nname = "m"\npinned = ["cpu"]\n')
    flags = (
        f"--bootstrap-servers={place.settings.kafka.bootstrap_servers}",
        f"--set=prefix={place.settings.prefix}",
    )
    assert await asyncio.to_thread(main, ["models", "check", str(file), "--json", *flags]) == 0
    said = orjson.loads(capsys.readouterr().out)
    assert said["requests"] == {"seen": 2, "move": 2, "unroutable": 0}
    assert said["conversations"] == {"seen": 2, "move": 2, "unroutable": 0}
    assert {
        (e["kind"], e["id"], e["queued"], e["before"], e["after"], e["why"])
        for e in said["effects"]
    } == {
        (kind, name, queued, "gpu", "cpu", "model m is pinned to cpu")
        for kind, name, queued in (
            ("request", "undecided", False),
            ("request", "queued", True),
            ("conversation", "c-queued", True),
            ("conversation", "c-finished", True),
        )
    }
    file.write_text('[[models]]\nname = "m"\npinned = ["npu"]\n')
    pinned_too = orjson.dumps(
        {"id": "p", "model_name": "m", "payload": {}, "requires": {"compute_types": ["cpu"]}}
    )
    await place.request([pinned_too], partition=0)
    check = ["models", "check", str(file), *flags]
    assert await asyncio.to_thread(main, check) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "unroutable cpu: model m is pinned to npu; npu: the request is pinned to cpu" in shown
    assert await asyncio.to_thread(main, [*check, "--allow-unroutable"]) == 0
    assert (await registry_of(place)).revision == 0


async def commit(
    place: RoutePlace, group: str, tp: TopicPartition, ledger: str, unfinished: list[int]
) -> None:
    """Commit a pool partition as its node does."""
    producer = FencedProducer(place.connection, transactional_id(group, tp.topic, 0), group)
    await producer.open()
    offset = min(unfinished, default=decode_finished(ledger).frontier)
    await producer.commit(Outputs(), {tp: Committed(offset, ledger)})
    await producer.close()
