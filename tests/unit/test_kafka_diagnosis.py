"""What a broker's last words become."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from deploy.local.kafka.diagnosis import explain, is_disk_full, last_words

if TYPE_CHECKING:
    from pathlib import Path

DIED = """\
2026-11-29 10:00:01.000 WARN QuorumController: [QuorumController id=1] Performing activation.
2026-11-29 10:00:02.000 ERROR KafkaServer: Exiting Kafka due to fatal exception
java.lang.IllegalStateException: the metadata is damaged
\tat org.apache.kafka.Server.start(Server.java:12)
\t... 12 more
2026-11-29 10:00:03.000 INFO KafkaRaftServer: shutting down
"""

STARTED_AND_KILLED = """\
2026-11-30 WARN LoggingSignalHandler: Failed to register
java.lang.reflect.InvocationTargetException
\tat kafka.Kafka$.main(Kafka.scala:80)
Caused by: java.lang.IllegalArgumentException: Signal already used by VM or OS: SIGTERM
\tat jdk.unsupported/sun.misc.Signal.handle(Unknown Source)
\t... 6 more
2026-11-30 INFO Kafka Server started
"""
"""What it says with `-Xrs` at each start of its own."""


def message(log: str, data_dir: Path) -> str:
    return str(explain(log, happened="did not start", log_file=data_dir / "broker.log"))


def test_the_error_quotes_the_last_line_that_says_what_went_wrong(tmp_path: Path) -> None:
    said = message(DIED, tmp_path)
    assert "did not start: java.lang.IllegalStateException: the metadata is damaged" in said
    assert str(tmp_path / "broker.log") in said


def test_without_a_severe_line_the_last_one_is_quoted() -> None:
    assert last_words("first\nlast\n\n") == "last"
    assert last_words(STARTED_AND_KILLED) == "2026-11-30 INFO Kafka Server started"
    assert last_words("") == ""


def test_a_long_line_is_cut_to_what_an_error_can_show() -> None:
    assert len(last_words("ERROR " + "x" * 10_000)) == 200


@pytest.mark.parametrize(
    ("logged", "told"),
    [
        ("java.io.IOException: No space left on device", "no space left on the disk of"),
        ("java.net.BindException: Address already in use", "another process took its port"),
        ("java.lang.OutOfMemoryError: Java heap space", "its memory ran out"),
    ],
)
def test_a_known_cause_is_one_line_with_the_next_step(
    logged: str, told: str, tmp_path: Path
) -> None:
    said = message(f"{DIED}{logged}\n", tmp_path)
    assert told in said
    assert "\n" not in said
    assert "--" in said  # the flag that helps


def test_a_full_disk_is_recognised_when_the_broker_could_not_even_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.local.kafka.diagnosis._free_bytes", lambda _folder: 0)
    assert "no space left" in message("Internal error: unsafe memory access", tmp_path)


def test_a_full_disk_is_recognised_below_other_errors() -> None:
    full = RuntimeError("download failed")
    full.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert is_disk_full(full)
    assert not is_disk_full(OSError(errno.EACCES, os.strerror(errno.EACCES)))
