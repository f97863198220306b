"""`overspill up` as a stranger uses it: another client library, one answer each, a clean end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from confluent_kafka import Consumer, Message, Producer

from runtime.ports import LOOPBACK, free_port
from schemas.examples import REQUESTS as EXAMPLES
from tests.kafka.documented_clients import run_clients
from tests.waiting import has_ended, in_time, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(360)]

REQUESTS = 200
READY_S = 100.0
ALL_ENDED_S = 90.0
IDLE_S = 2.0
STOP_S = 15.0

HEADERS = [
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("binary", bytes(range(256))),
    ("twice", b"1"),
    ("twice", b"2"),
    ("empty", b""),
    ("null", None),
]
MALFORMED = {
    "not-json": b"{",
    "bad-encoding": b'"\xff"',
    "null-value": None,
    "invalid-field": b'{"id": "x", "model_name": "m", "payload": {}, "priority": 1}',
    "unsupported-version": b'{"id": "x", "model_name": "m", "payload": {}, "version": 2}',
    "too-deep": b'{"payload": ' + b"[" * 300 + b"]" * 300 + b"}",
}
KINDS: tuple[dict[str, Any], ...] = (
    {"priority": "realtime"},
    {"priority": "normal"},
    {"priority": "batch"},
    {"priority": "batch"},
    {"has_lora": True},
    {"latency_slo_ms": 45},
    {"model_name": "tiny-docs-small"},
)


class Up(NamedTuple):
    """A running `overspill up`."""

    process: subprocess.Popen[str]
    bootstrap_servers: str
    output: Path

    def children(self) -> dict[str, psutil.Process]:
        """Return its processes by role."""
        found = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                line = " ".join(child.cmdline())
            except psutil.NoSuchProcess:  # it ended since it was listed
                continue
            role = re.search(r"deploy\.cli (\w+)(?: --pool=(\w+))?|kafka\.Kafka", line)
            if role:
                found["-".join(part for part in role.groups() if part) or "kafka"] = child
        return found


@contextmanager
def running(folder: Path, *, ready: bool = True) -> Iterator[Up]:
    port = free_port()
    output = folder / "up.txt"
    command = [sys.executable, "-m", "deploy.cli", "up", f"--kafka-port={port}"]
    with (
        output.open("w") as out,
        subprocess.Popen(
            [*command, f"--data-dir={folder / 'data'}"], stdout=out, stderr=out, text=True
        ) as process,
    ):
        try:
            if ready:
                wait_until(
                    lambda: (
                        "Overspill is ready" in output.read_text() or process.poll() is not None
                    ),
                    f"readiness: {output.read_text()}",
                    READY_S,
                )
            yield Up(process, f"127.0.0.1:{port}", output)
        finally:
            process.kill()


def produce(servers: str, values: dict[str, bytes | None]) -> dict[str, str]:
    """Send the records under their names as keys; return the origin of each by name."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    origins: dict[str, str] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None
        name = message.key().decode()
        origins[name] = f"{message.topic()}/{message.partition()}/{message.offset()}"

    for name, value in values.items():
        producer.produce(
            "overspill.requests", value, key=name, headers=HEADERS, on_delivery=delivered
        )
    assert producer.flush(30) == 0
    return origins


def requests(prefix: str, count: int) -> dict[str, bytes | None]:
    made: dict[str, bytes | None] = {}
    for number in range(count):
        document = {
            "id": f"{prefix}-{number}",
            "model_name": "tiny-docs",
            "payload": {"prompt": "The with statement", "max_tokens": 8},
            **KINDS[number % len(KINDS)],
        }
        made[document["id"]] = json.dumps(document).encode()
    return made


@contextmanager
def reader(servers: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "somebody-else",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["overspill.results", "overspill.dead-letter"])
    try:
        yield consumer
    finally:
        consumer.close()


def read_until(
    consumer: Consumer, ends: dict[str, list[Message]], origins: set[str], within_s: float
) -> None:
    """Add terminal records by origin until each of these has one."""
    give_up = time.monotonic() + within_s
    while not origins <= ends.keys():
        left = len(origins - ends.keys())
        assert time.monotonic() < give_up, f"{left} requests have no end after {within_s} s"
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            ends.setdefault(header(message, "overspill-origin"), []).append(message)


def header(message: Message, name: str) -> str:
    return dict(message.headers())[name].decode()


def status(servers: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "deploy.cli", "status", "--json"]
    done = subprocess.run(
        [*command, "--bootstrap-servers", servers], capture_output=True, text=True, check=True
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_stranger_gets_one_answer_for_each_record_and_a_clean_end(tmp_path: Path) -> None:
    with running(tmp_path) as up, reader(up.bootstrap_servers) as consumer:
        values = requests("mixed", REQUESTS)
        origins = produce(up.bootstrap_servers, {**values, **MALFORMED})
        ends: dict[str, list[Message]] = {}
        read_until(consumer, ends, set(origins.values()), ALL_ENDED_S)
        ended = time.monotonic()

        idle = status(up.bootstrap_servers)
        while not is_idle(idle):
            assert time.monotonic() - ended < IDLE_S, f"not idle {IDLE_S} s after the end: {idle}"
            idle = status(up.bootstrap_servers)
        assert idle["dead_letters_total"] == len(MALFORMED)
        assert sum(pool["finished_total"] for pool in idle["pools"].values()) == REQUESTS
        proven = [one for found in idle["capabilities"].values() for one in found]
        assert [(one["model"], one["lora"]) for one in proven] == [("tiny-docs", True)] * 3

        for name in values:
            (message,) = ends[origins[name]]
            result = json.loads(message.value())
            assert message.topic() == "overspill.results"
            assert (result["id"], result["status"], message.key()) == (name, "ok", name.encode())
            assert len(result["output"]["choices"][0]["text"]) > 0
            assert_headers_are_back(message)
        for category, value in MALFORMED.items():
            (message,) = ends[origins[category]]
            assert message.topic() == "overspill.dead-letter"
            assert header(message, "overspill-error-category") == category
            assert message.value() == value
            assert_headers_are_back(message)
        pools = Counter(
            json.loads(message.value())["served_by"]["pool"]
            for messages in ends.values()
            for message in messages
            if message.topic() == "overspill.results"
        )
        assert pools.keys() == {"gpu", "cpu", "npu"}

        # What the documents show works as it stands.
        shown = {e.payload["id"]: json.dumps(e.payload).encode() for e in EXAMPLES}
        sent = produce(up.bootstrap_servers, shown)
        read_until(consumer, ends, set(sent.values()), ALL_ENDED_S)
        for name in shown:
            (message,) = ends[sent[name]]
            assert (json.loads(message.value())["status"], message.key()) == ("ok", name.encode())
        where = {"BOOTSTRAP_SERVERS": up.bootstrap_servers}
        run_clients({"python": where, "java": where, "kcat": where}, tmp_path)

        assert set(listening(up)) == {LOOPBACK}

        # A role that dies is started again, in one line, and nothing is lost.
        up.children()["router"].kill()
        later = produce(up.bootstrap_servers, requests("later", 10))
        read_until(consumer, ends, set(later.values()), ALL_ENDED_S)
        assert all(len(messages) == 1 for messages in ends.values())
        assert re.search(
            r"\nrouter stopped \(signal 9: .*\); again in 0.5 s\n", up.output.read_text()
        )

        children = up.children()
        assert children.keys() == {
            "kafka", "control", "router", "executor-gpu", "executor-cpu", "executor-npu",
        }  # fmt: skip
        up.process.send_signal(signal.SIGTERM)
        assert up.process.wait(in_time(STOP_S)) == 0
        assert all(map(has_ended, children.values()))
        assert up.output.read_text().endswith("Stopped.\n")


def test_everything_ends_with_an_up_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, ready=False) as up:
        wait_until(lambda: len(up.children()) == 6, "the start of broker and five roles", READY_S)
        children = up.children()
        up.process.kill()
        wait_until(lambda: all(map(has_ended, children.values())), "their end", in_time(STOP_S))


def listening(up: Up) -> list[str]:
    """Return every address at which a process of the stack takes connections, as `ss -ltn` does."""
    return [
        socket.laddr.ip.removeprefix("::ffff:")
        for process in psutil.Process(up.process.pid).children(recursive=True)
        for socket in process.net_connections("inet")
        if socket.status == psutil.CONN_LISTEN
    ]


def is_idle(said: dict[str, Any]) -> bool:
    unfinished = [pool["unfinished"] for pool in said["pools"].values()]
    return not any((*unfinished, said["undecided"], said["in_retry"]))


def assert_headers_are_back(message: Message) -> None:
    theirs = [pair for pair in message.headers() if not pair[0].startswith("overspill-")]
    assert theirs == HEADERS
