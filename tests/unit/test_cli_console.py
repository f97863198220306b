"""Progress without a terminal: news at once, and what only counts on now and then."""

from __future__ import annotations

import pytest

from deploy.cli import console
from deploy.cli.console import COUNTING_EVERY_S, Progress


def test_a_line_that_only_counts_on_is_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now_s)
    with Progress() as say:
        say("Fetching (45 MB)")
        for files in range(1, 26):
            say(f"Fetching: {files} files, {files * 1.8:.1f} of 45 MB")
            now_s += 1.0
        say("Starting Kafka")
        say("Fetching: 26 files, 45.0 of 45 MB")
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "Fetching (45 MB)"
    assert shown[-2:] == ["Starting Kafka", "Fetching: 26 files, 45.0 of 45 MB"]
    assert len(shown) == 3 + 1 + 24 // COUNTING_EVERY_S


def test_what_happens_once_all_is_up_is_said_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as say:
        say.settle()
        for pause_s in (0.5, 1):
            say(f"router stopped (exit 1: out of memory); again in {pause_s:g} s")
    assert len(capsys.readouterr().err.splitlines()) == 2
