"""The data directory of an embedded broker: whose it is, and what a start does with it."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.kafka.lock import locked
from deploy.local.kafka.storage import (
    Storage,
    clear_unformatted,
    default_data_dir,
    new_cluster_id,
    open_storage,
    set_aside,
    storage_errors,
)
from schemas.errors import LocalKafkaError, UsageError


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "kafka")


def ignore(_line: str) -> None:
    pass


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_folder_in_use_is_refused_and_its_user_named(storage: Storage) -> None:
    with (
        locked(storage.lock, ignore),
        pytest.raises(LocalKafkaError, match=rf"in use by process {os.getpid()}: .*--data-dir"),
        locked(storage.lock, ignore),
    ):
        pass


def test_a_child_that_inherits_the_lock_keeps_it(storage: Storage) -> None:
    with locked(storage.lock, ignore) as descriptor:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(descriptor,))
    with child, pytest.raises(LocalKafkaError, match="in use"), locked(storage.lock, ignore):
        pass
    with locked(storage.lock, ignore):
        pass  # the child is gone, and the lock with it


def test_a_lock_left_by_a_dead_process_is_taken_over_with_one_line(storage: Storage) -> None:
    gone = dead_pid()
    storage.lock.write_text(f'{{"pid": {gone}}}')
    said: list[str] = []
    with locked(storage.lock, said.append):
        pass
    assert len(said) == 1
    assert re.search(rf"Taking over .*process {gone} is gone", said[0])


def test_after_a_clean_stop_nothing_is_said(storage: Storage) -> None:
    storage.lock.write_text("")
    said: list[str] = []
    with locked(storage.lock, said.append):
        pass
    assert said == []


def test_a_broker_whose_parent_died_is_given_time_to_stop(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = dead_pid()
    held = os.open(storage.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    os.write(held, f'{{"pid": {gone}}}'.encode())
    monkeypatch.setattr("deploy.local.kafka.lock.time.sleep", lambda _s: os.close(held))
    said: list[str] = []
    with locked(storage.lock, said.append):
        pass
    assert f"process {gone} left behind" in said[0]


def test_a_folder_with_other_files_is_never_used(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match="not an embedded broker's"):
        open_storage(tmp_path)


def test_a_file_is_no_data_dir(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="not a folder"):
        open_storage(tmp_path / "file")


def test_a_fresh_start_keeps_the_data_of_before_exactly_once(storage: Storage) -> None:
    for run in ("first", "second"):
        storage.log_dir.mkdir()
        (storage.log_dir / run).write_text("")
        set_aside(storage, ignore)
        assert not storage.log_dir.exists()
    assert [path.name for path in (storage.data_dir / "previous").iterdir()] == ["second"]


def test_what_an_interrupted_format_left_is_cleared(storage: Storage) -> None:
    storage.log_dir.mkdir()
    (storage.log_dir / "bootstrap.checkpoint").write_text("half")
    clear_unformatted(storage)
    assert not storage.log_dir.exists()


def test_formatted_data_is_never_cleared(storage: Storage) -> None:
    storage.log_dir.mkdir()
    (storage.log_dir / "meta.properties").write_text("")
    clear_unformatted(storage)
    assert storage.is_formatted


def test_data_lives_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data_dir() == Path("/data/overspill/kafka")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_data_dir() == Path("/home/someone/.local/share/overspill/kafka")


def test_a_cluster_id_is_what_kafka_accepts() -> None:
    for _ in range(500):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", new_cluster_id())


def test_a_folder_that_cannot_be_made_is_one_line() -> None:
    folder = Path("/dev/null/kafka")
    with pytest.raises(LocalKafkaError, match="--data-dir"), storage_errors(folder):
        folder.mkdir()
