"""`submit` and `results` against a real broker, with one who answers in the place of the system."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from deploy.cli import main
from runtime.connection import connection_of
from runtime.kafka.topics import create_topics
from runtime.settings import Settings, load_settings
from schemas.headers import Origin, Passage, encode_passage
from schemas.message import encode
from schemas.outcomes import Reason, Status
from schemas.result import DecisionSummary, Result, Timings
from schemas.topics import catalogue

if TYPE_CHECKING:
    from conftest import RunningKafka

pytestmark = pytest.mark.kafka

LONG_AGO_MS = 1_700_000_000_000
"""Results are told apart by their time, which for real ones may be the same millisecond."""


@pytest.fixture
def settings(kafka: RunningKafka) -> Settings:
    """Return settings of an installation of its own, with its topics."""
    made = load_settings(
        flags={
            "kafka.bootstrap_servers": kafka.bootstrap_servers,
            "prefix": f"records-{uuid.uuid4().hex[:8]}.",
        }
    )
    asyncio.run(
        create_topics(connection_of(made), catalogue(made.topics, made.pools, partitions=2))
    )
    return made


def overspill(settings: Settings, *arguments: str) -> int:
    servers = settings.kafka.bootstrap_servers
    flags = (f"--bootstrap-servers={servers}", f"--set=prefix={settings.prefix}")
    return main([*arguments, *flags])


def answer(settings: Settings, producer: Producer, origin: Origin, request_id: str) -> None:
    """Write the result of a request."""
    result = Result(
        id=request_id,
        status=Status.OK,
        output={"choices": [{"text": f"answer to {request_id}"}]},
        timings_ms=Timings(to_router=1, total=2),
        decision=DecisionSummary(reason=Reason.GPU_PREFERRED, threshold=10, policy="overflow"),
    )
    producer.produce(
        settings.topics.results,
        encode(result),
        key=request_id,
        headers=encode_passage(Passage(request_id, origin, 1)),
        timestamp=LONG_AGO_MS + origin.offset,
    )
    producer.flush(10)


@contextmanager
def someone_who_answers(settings: Settings) -> Iterator[None]:
    """Answer each request with `ok` until the body ends."""
    servers = settings.kafka.bootstrap_servers
    stop = Event()

    def serve() -> None:
        producer = Producer({"bootstrap.servers": servers})
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"{settings.prefix}somebody",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([settings.topics.requests])
        with contextlib.closing(consumer):
            while not stop.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    origin = Origin(message.topic(), message.partition(), message.offset())
                    answer(settings, producer, origin, json.loads(message.value())["id"])

    thread = Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_there_are_no_results_before_the_first(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert overspill(settings, "results") == 0
    assert overspill(settings, "results", "--from-beginning") == 0
    assert capsys.readouterr().out == ""


def test_results_are_the_last_ten_or_all(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    names = [f"r{number:02}" for number in range(13)]
    for offset, name in enumerate(names):
        answer(settings, producer, Origin(settings.topics.requests, 0, offset), name)

    assert overspill(settings, "results", "--json") == 0
    last = [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
    assert last == names[-10:]

    assert overspill(settings, "results", "--from-beginning") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines) == names
    assert lines[0].endswith(f"answer to {lines[0].split()[0]}")


def test_submit_waits_for_each_result_and_prints_it(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{settings.prefix}{number}" for number in range(30)]
    file = tmp_path / "requests.jsonl"
    lines = (json.dumps({"id": name, "model_name": "m", "payload": {}}) for name in names)
    file.write_text("\n".join(lines))
    with someone_who_answers(settings):
        assert overspill(settings, "submit", str(file), "--wait", "--json") == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(result["id"] for result in results) == sorted(names)


def test_a_line_that_is_no_request_is_named_and_the_others_are_sent(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text('{"id": "good", "model_name": "m", "payload": {}}\n{"id": "bad"}\n')
    assert overspill(settings, "submit", str(file)) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("sent 1;")
    assert shown.err == "line 2 was not sent: Object missing required field `model_name`\n"


def test_a_result_that_does_not_come_is_one_line_and_exit_code_1(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--model", "m", "--prompt", "p", "--id", "lonely", "--wait", "--timeout", "0.5")
    assert overspill(settings, "submit", *flags) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: 1 of 1 requests have no result after 0.5 s (one is lonely)")
    assert told.count("\n") == 1


def test_topics_grow_in_the_order_in_which_partitions_find_their_partners(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    names = settings.topics
    assert overspill(settings, "topics", "grow", "--partitions", "3", "--json") == 0
    grown = json.loads(capsys.readouterr().out)["grown"]
    assert grown.index(names.retry) < grown.index(names.requests)
    assert grown.index(names.express("gpu")) < grown.index(names.pool("gpu"))
    assert overspill(settings, "topics", "check", "--partitions", "3") == 0
    assert overspill(settings, "topics", "grow", "--partitions", "2", "--json") == 0
    assert '{"grown":[]}' in capsys.readouterr().out


def test_topics_that_differ_from_their_declaration_are_named(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert overspill(settings, "topics", "check", "--partitions", "2") == 0
    assert overspill(settings, "topics", "check", "--partitions", "3") == 1
    assert "has 2 partitions, declared are 3" in capsys.readouterr().err
    topic = settings.topics.results
    setting = ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[setting])
    admin.incremental_alter_configs([resource])[resource].result(10)
    assert overspill(settings, "topics", "check", "--partitions", "2") == 1
    assert f"{topic} has min.insync.replicas=2, declared is 1: set it" in capsys.readouterr().err
