"""The archive of Kafka's classes: it may save time, and never costs a start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy.local.kafka import class_archive


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "classes.jsa"


@pytest.fixture
def class_list(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "classes.lst"
    path.parent.mkdir()
    path.write_text("java/lang/Object\n")
    return path


def jvm(tmp_path: Path, code: str) -> list[str]:
    """Stand for a JVM: a program that gets the same flags and writes the archive or fails."""
    program = tmp_path / "jvm.py"
    program.write_text(
        "import sys\n"
        "given = dict(flag.split('=', 1) for flag in sys.argv[1:] if '=' in flag)\n"
        f"{code}\n"
    )
    return [sys.executable, str(program)]


def made(archive: Path, class_list: Path, command: list[str]) -> None:
    making = class_archive.make(archive, class_list, command)
    assert making is not None
    making.join(30)
    assert not making.is_alive()


def test_the_first_broker_lists_its_classes_and_the_next_uses_the_archive(
    archive: Path, class_list: Path, tmp_path: Path
) -> None:
    assert class_archive.flags(archive, class_list) == [f"-XX:DumpLoadedClassList={class_list}"]
    write = "open(given['-XX:SharedArchiveFile'], 'w').write('classes')"
    made(archive, class_list, jvm(tmp_path, write))
    assert class_archive.flags(archive, class_list) == [f"-XX:SharedArchiveFile={archive}"]
    left = {path.name for path in tmp_path.glob("classes*")}
    assert left == {"classes.jsa", "classes.lock"}


def test_a_line_that_the_broker_is_still_writing_is_left_out(
    archive: Path, class_list: Path, tmp_path: Path
) -> None:
    class_list.write_text("java/lang/Object\njava/la")
    copy = (
        "open(given['-XX:SharedArchiveFile'], 'w').write("
        "open(given['-XX:SharedClassListFile']).read())"
    )
    made(archive, class_list, jvm(tmp_path, copy))
    assert archive.read_text() == "java/lang/Object\n"


def test_an_archive_that_cannot_be_made_is_not_tried_again(
    archive: Path, class_list: Path, tmp_path: Path
) -> None:
    half = "open(given['-XX:SharedArchiveFile'], 'w').write('half'); sys.exit(1)"
    made(archive, class_list, jvm(tmp_path, half))
    assert class_archive.flags(archive, class_list) == []
    assert class_archive.make(archive, class_list, jvm(tmp_path, half)) is None


def test_one_that_was_interrupted_is_made_at_a_later_start(
    archive: Path, class_list: Path, tmp_path: Path
) -> None:
    made(archive, class_list, jvm(tmp_path, "import os; os.kill(os.getpid(), 9)"))
    assert class_archive.flags(archive, class_list) == [f"-XX:DumpLoadedClassList={class_list}"]


def test_two_starts_at_once_make_one_archive(
    archive: Path, class_list: Path, tmp_path: Path
) -> None:
    wait = (
        "import os, time\n"
        "while not os.path.exists(sys.argv[0] + '.go'):\n    time.sleep(0.01)\n"
        "sys.exit(1)"
    )
    command = jvm(tmp_path, wait)
    first = class_archive.make(archive, class_list, command)
    class_list.write_text("java/lang/Object\n")
    assert first is not None
    assert class_archive.make(archive, class_list, command) is None
    (tmp_path / "jvm.py.go").write_text("")
    first.join(30)


def test_a_failure_to_begin_costs_no_start(archive: Path, tmp_path: Path) -> None:
    assert class_archive.make(archive, tmp_path / "no list", ["java"]) is None


def test_a_cache_that_is_only_readable_needs_no_archive(class_list: Path) -> None:
    assert class_archive.flags(Path("/proc/self/no/classes.jsa"), class_list) == []
