"""Advice shows commands as the user typed this one, so that they can be copied."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from deploy.cli.called import as_called, called
from deploy.cli.entry import main

ADVICE = "start it (`overspill up`), an overspill header\n  overspill status --watch"


def installed(folder: Path) -> Path:
    file = folder / "overspill"
    folder.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o755)
    return file


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own, where no shell would find `overspill`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return tmp_path


def test_who_called_it_by_its_path_is_told_that_path(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(elsewhere / ".venv" / "bin")
    monkeypatch.setattr(sys, "argv", [".venv/bin/overspill", "demo"])
    assert as_called(ADVICE) == (
        "start it (`.venv/bin/overspill up`), an overspill header\n"
        "  .venv/bin/overspill status --watch"
    )
    monkeypatch.chdir(installed(elsewhere / "deeper").parent)
    monkeypatch.setattr(sys, "argv", [str(elsewhere / ".venv" / "bin" / "overspill")])
    assert called() == str(elsewhere / ".venv" / "bin" / "overspill")
    monkeypatch.setattr(sys, "argv", ["./overspill"])
    assert called() == "./overspill"


def test_who_has_it_on_the_path_is_told_its_name(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = installed(elsewhere / "bin"), installed(elsewhere / "other")
    monkeypatch.setenv("PATH", f"{ours.parent}{os.pathsep}{other.parent}")
    monkeypatch.setattr(sys, "argv", [str(ours)])
    assert as_called(ADVICE) == ADVICE
    monkeypatch.setattr(sys, "argv", [str(other)])  # another one than a shell would start
    assert called() == "other/overspill"


def test_what_is_no_command_that_could_be_typed_goes_by_its_name(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(elsewhere / "deploy" / "cli" / "__main__.py")])
    assert as_called(ADVICE) == ADVICE


def test_who_stands_in_a_folder_that_is_gone_is_told_its_name(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = elsewhere / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "argv", ["/opt/overspill"])
    assert called() == "overspill"
    monkeypatch.chdir(elsewhere)


def test_errors_and_help_go_by_it(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(elsewhere / "venv" / "bin")
    import_module("deploy.cli.status")  # examples are made once a process: not by this one's name
    monkeypatch.setattr(sys, "argv", ["venv/bin/overspill"])
    assert main(["status", "--bootstrap-servers=127.0.0.1:1"]) == 3
    assert "`venv/bin/overspill up`" in capsys.readouterr().err
    assert main(["status", "--no-such-flag"]) == 2
    assert "`venv/bin/overspill status --help`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    ["", "broker", "broker:", ":9092", "broker:nine", "b:0", "b:65536", "a:1,b", "kafka://b:1",
     "u:secret@b:1", "[::1]", "::1:9092"],
)  # fmt: skip
def test_an_address_that_is_none_says_how_one_is_written(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["status"], ["bench", "router"]):
        assert main([*command, f"--bootstrap-servers={wrong}"]) == 2
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert "host:port, as broker-1:9092" in line
        assert "secret" not in line
