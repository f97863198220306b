"""The embedded broker against the real thing: it starts, keeps data, stops, and explains itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from deploy.local.kafka import start_broker
from runtime.ports import free_port
from schemas.errors import LocalKafkaError
from tests.waiting import has_ended, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import RunningKafka

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
TOPIC = "kept"

PARENT = """
import sys, time
from pathlib import Path
from deploy.local.kafka import start_broker
broker = start_broker(port=int(sys.argv[2]), data_dir=Path(sys.argv[1]), progress=lambda line: None)
print(broker.pid, flush=True)
time.sleep(600)
"""


def ignore(_line: str) -> None:
    pass


@contextlib.contextmanager
def parent_of_broker(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """Run a process that starts a broker and sleeps; yield it and the broker."""
    command = [sys.executable, "-c", PARENT, str(data_dir), str(free_port())]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            yield parent, psutil.Process(int(parent.stdout.readline()))
        finally:
            parent.kill()


async def create_topic(bootstrap_servers: str) -> str:
    """Create the topic and return the cluster's id."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers, request_timeout_ms=5000)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(TOPIC, 1, 1)])
        return str((await admin.describe_cluster())["cluster_id"])
    finally:
        await admin.close()


async def write_one(bootstrap_servers: str) -> str:
    """Create the topic, write one record, and return the cluster's id."""
    cluster = await create_topic(bootstrap_servers)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
    await producer.start()
    try:
        await producer.send_and_wait(TOPIC, b"still here")
    finally:
        await producer.stop()
    return cluster


async def read_one(bootstrap_servers: str) -> tuple[str, bytes | None]:
    """Return the cluster's id and the record written before."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    cluster = await admin.describe_cluster()
    await admin.close()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="none")
    await consumer.start()
    try:
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        record = await asyncio.wait_for(consumer.getone(), 10)
    finally:
        await consumer.stop()
    return str(cluster["cluster_id"]), record.value


def test_data_survives_a_restart_and_a_fresh_start_begins_with_none(tmp_path: Path) -> None:
    with start_broker(port=free_port(), data_dir=tmp_path, progress=ignore) as broker:
        cluster = asyncio.run(write_one(broker.bootstrap_servers))
        with pytest.raises(LocalKafkaError, match=f"in use by process {os.getpid()}"):
            start_broker(port=free_port(), data_dir=tmp_path, progress=ignore)
    assert not broker.is_alive
    said: list[str] = []
    with start_broker(port=free_port(), data_dir=tmp_path, progress=said.append) as broker:
        assert asyncio.run(read_one(broker.bootstrap_servers)) == (cluster, b"still here")
    assert not any("Taking over" in line for line in said)  # the first one had a guard to its end
    with start_broker(port=free_port(), data_dir=tmp_path, fresh=True, progress=ignore) as broker:
        # The topic can be created again: nothing of before is there.
        assert asyncio.run(write_one(broker.bootstrap_servers)) != cluster
        assert (tmp_path / "previous" / f"{TOPIC}-0").is_dir()


def test_the_broker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    with parent_of_broker(tmp_path) as (parent, broker):
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: has_ended(broker), "the end of the broker")
    wait_until(lambda: (tmp_path / "lock").read_text() == "", "the guard's word of a clean stop")


def test_the_broker_ends_when_its_guard_is_killed_and_the_next_start_takes_over(
    tmp_path: Path,
) -> None:
    with parent_of_broker(tmp_path) as (parent, broker):
        guard = broker.parent()
        assert guard is not None
        guard.kill()
        wait_until(lambda: has_ended(broker), "the end of the broker")
        parent.kill()
        parent.wait()
    said: list[str] = []
    start_broker(port=free_port(), data_dir=tmp_path, progress=said.append).stop()
    assert any(re.search(rf"Taking over .* process {parent.pid} is gone", line) for line in said)


def test_a_broker_that_dies_is_explained_with_its_last_words(tmp_path: Path) -> None:
    with start_broker(port=free_port(), data_dir=tmp_path, progress=ignore) as broker:
        broker.check()
        with broker.log_file.open("a") as log:
            log.write("java.lang.IllegalStateException: the metadata is damaged\n")
        os.kill(broker.pid, signal.SIGKILL)
        wait_until(lambda: not broker.is_alive, "the end of the broker")
        with pytest.raises(LocalKafkaError, match=r"signal 9\): .*the metadata is damaged"):
            broker.check()


def test_a_port_taken_between_choice_and_start_is_chosen_anew(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(kafka.bootstrap_servers.rpartition(":")[2])
    choices = iter([taken, free_port()])
    monkeypatch.setattr("deploy.local.kafka.broker.choose_port", lambda *_: next(choices))
    with start_broker(data_dir=tmp_path, progress=ignore) as broker:
        assert not broker.bootstrap_servers.endswith(f":{taken}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 24 MiB; only root may."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a full disk needs the right to mount one: run as root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no free byte."""
    with (folder / "filler").open("wb", 0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(1 << 16))
    assert shutil.disk_usage(folder).free == 0


def test_a_full_disk_is_one_clear_line_at_the_first_start(small_disk: Path) -> None:
    data_dir = small_disk / "kafka"
    data_dir.mkdir()
    fill(small_disk)
    with pytest.raises(LocalKafkaError, match=r"^no space left on the disk of .*--data-dir$"):
        start_broker(port=free_port(), data_dir=data_dir, progress=ignore)


def test_a_full_disk_is_one_clear_line_when_it_ends_a_running_broker(small_disk: Path) -> None:
    data_dir = small_disk / "kafka"
    with start_broker(port=free_port(), data_dir=data_dir, progress=ignore) as broker:
        fill(small_disk)
        with contextlib.suppress(KafkaError):  # answered or not: the broker dies of writing it
            asyncio.run(create_topic(broker.bootstrap_servers))
        wait_until(lambda: not broker.is_alive, "the end of the broker")
        with pytest.raises(LocalKafkaError, match=r"^no space left on the disk of .*--data-dir$"):
            broker.check()
