"""Status and offsets lose nothing of what they show, in a pipe and on a narrow terminal."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deploy.cli import watch
from deploy.cli.status_table import status_view
from deploy.cli.tables import console, table
from runtime.settings import Settings
from tests.unit.test_status import NOW_MS, capability, report, status

ROOT = Path(__file__).parents[2]
PROVEN = capability(
    precision="Q8_0", tokenizer_digest="sha256:0123456789", golden_error=0.0003,
    validated_at_ms=NOW_MS - 120_000,
)  # fmt: skip
LONG = "overspill.executor.gpu-overspill.gpu.express-31"


def test_a_pipe_gets_whole_names_a_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    shown = table(("group", "partition"), ("committed",))
    shown.add_row(LONG, LONG, "1000000")
    console().print(shown)
    assert capsys.readouterr().out.splitlines()[1].split() == [LONG, LONG, "1000000"]


@pytest.mark.parametrize("columns", [40, 60, 79])
def test_a_narrow_terminal_folds_headings_and_cuts_none(columns: int) -> None:
    terminal = Console(width=columns, file=io.StringIO(), force_terminal=True, color_system=None)
    with terminal.capture() as captured:
        terminal.print(status_view(status(reports=(report("g", PROVEN),)), lag=True))
    shown = captured.get()
    assert "…" not in shown
    assert all(len(line) <= columns for line in shown.splitlines())


def test_what_nodes_have_proven_is_a_line_a_model_and_nothing_if_they_have_proven_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console().print(status_view(status(reports=(report("g", PROVEN),))))
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "gpu m Q8_0 01234567 1 0.0003 2 min ago" in shown
    console().print(status_view(status(reports=(report("g"),))))
    assert "golden" not in capsys.readouterr().out


async def test_without_a_terminal_each_status_is_printed_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reads = 0

    async def read(*_: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads == 3:
            assert capsys.readouterr().out.count("threshold 17") == 2
            raise asyncio.CancelledError
        return status()

    monkeypatch.setattr(watch, "read_status", read)
    monkeypatch.setattr(watch, "WATCH_S", 0.0)
    with pytest.raises(asyncio.CancelledError):
        await watch.watch_it(Settings(), lag=True, as_json=False)
    assert reads == 3


def test_status_as_json_does_not_wait_for_what_draws_tables() -> None:
    script = "import sys, deploy.cli.watch; print([m for m in sys.modules if m.startswith('rich')])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
