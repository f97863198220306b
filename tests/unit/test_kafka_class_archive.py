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
    path = tmp_path / "classes.lst"
    path.write_text("java/lang/Object")
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


def test_the_first_broker_lists_its_classes_and_the_next_uses_the_archive(
    archive: Path, class_list: Path, tmp_path: Path
) -> None:
    assert class_archive.is_wanted(archive)
    assert class_archive.flags(archive, class_list) == [f"-XX:DumpLoadedClassList={class_list}"]
    write = "open(given['-XX:SharedArchiveFile'], 'w').write('classes')"
    class_archive.make(archive, class_list, jvm(tmp_path, write))
    assert not class_archive.is_wanted(archive)
    assert class_archive.flags(archive, class_list) == [f"-XX:SharedArchiveFile={archive}"]
    assert not class_list.exists()
    assert list(tmp_path.glob("classes.jsa.*")) == []


def test_an_archive_that_cannot_be_made_is_not_tried_again(
    archive: Path, class_list: Path, tmp_path: Path
) -> None:
    half = "open(given['-XX:SharedArchiveFile'], 'w').write('half'); sys.exit(1)"
    class_archive.make(archive, class_list, jvm(tmp_path, half))
    assert not class_archive.is_wanted(archive)
    assert class_archive.flags(archive, class_list) == []


def test_a_jvm_that_cannot_run_costs_no_start(archive: Path, class_list: Path) -> None:
    class_archive.make(archive, class_list, ["/does/not/exist"])
    assert not archive.exists()


def test_a_cache_that_is_only_readable_needs_no_archive(class_list: Path) -> None:
    assert class_archive.flags(Path("/proc/self/no/classes.jsa"), class_list) == []
