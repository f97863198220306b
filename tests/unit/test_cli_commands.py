"""The command line's manners: help with examples, errors in one line, exit codes with meaning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cli import main
from deploy.cli.entry import COMMANDS
from runtime.ports import free_port

ROOT = Path(__file__).parents[2]
GROUPS = ("topics", "offsets", "models", "bench", "nodes", "pools", "threshold")
LEAVES = [
    *([name] for name in COMMANDS if name not in GROUPS),
    *([group, command] for group, command in (
        ("topics", "create"), ("topics", "grow"), ("topics", "check"),
        ("offsets", "show"), ("offsets", "accept"),
        ("models", "list"), ("models", "check"), ("models", "set"), ("models", "remove"),
        ("bench", "decide"), ("bench", "router"), ("bench", "threshold"),
        ("bench", "placement"), ("bench", "control"),
        ("nodes", "list"), ("nodes", "drain"), ("nodes", "resume"),
        ("pools", "list"), ("pools", "pause"), ("pools", "resume"),
        ("threshold", "show"), ("threshold", "freeze"), ("threshold", "set"),
        ("threshold", "release"),
    )),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where there is no overspill.toml, and with no setting in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OVERSPILL_DEBUG", raising=False)


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_every_command_has_help_with_an_example(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: overspill " + " ".join(command) in shown
    assert "Example" in shown
    assert f"\n    overspill {' '.join(command)}" in shown or "| overspill" in shown


def test_the_list_of_commands_is_shown_without_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in shown
    for meaning in ("2 if flags", "3 if no broker answers", "4 if an engine"):
        assert meaning in " ".join(shown.split())


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_alone_shows_its_commands(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([group]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert f"Usage: overspill {group} [OPTIONS] COMMAND" in shown.out
    for command in (leaf[1] for leaf in LEAVES if leaf[0] == group and len(leaf) > 1):
        assert f"\n  {command} " in shown.out


def test_an_executor_of_each_backend_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["executor", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "docs/backends.md" in shown
    for backend in ("llama", "emulated", "openai", "oip", "onnx"):
        assert f"--backend {backend} " in shown


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    heavy = {"aiokafka", "pydantic", "faust", "aiohttp", "rich", "prometheus_client", "uvloop"}
    script = (
        "import sys; from deploy.cli import main; "
        f"main({[*command, '--help']!r}); print(sorted({heavy!r} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frobnicate"], "No such command"),
        (["status", "--frobnicate"], "No such option"),
        (["status", "--config", "absent.toml"], "no settings file absent.toml"),
        (["status", "--set", "nonsense"], "write it as name=value"),
        (["status", "--set", "policy.colour=red"], "there is no setting policy.colour"),
        (["topics", "create", "--partitions", "500"], "offset metadata"),
        (["submit"], "give either a FILE"),
        (["submit", "--model", "m"], "give either --prompt or --payload"),
        (["submit", "--model", "m", "--payload", "{"], "--payload is not JSON"),
        (["executor", "--pool", "gpu", "--node-id", "no spaces"], "node_id"),
        (["executor", "--pool", "tpu"], "no pool 'tpu'"),
        (["executor", "--pool", "gpu", "--backend", "emulated"], "needs --profile"),
        (["executor", "--pool", "gpu", "--backend", "openai"], "needs --url"),
        (["offsets", "accept", "router"], "Missing option '--at'"),
        (["nodes", "drain", "gpu-1"], "Missing option '--why'"),
        (["threshold", "freeze", "--why", " "], "--why is empty"),
        (["threshold", "freeze", "--why", "two\nlines"], "--why takes one printable line"),
        (["pools", "pause", "cpu", "--why", "x" * 201], "at most 200 characters"),
        (["pools", "resume", "cpu", "--who", "\x1b[31m"], "--who takes one printable line"),
        (["pools", "pause", "tpu", "--why", "w"], "no pool 'tpu'"),
        (["threshold", "set", "1001", "--why", "w"], "the threshold goes from 2 to 1000"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert_one_line(capsys.readouterr().err, says)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "OVERSPILL_CONFIG",
            "absent.toml",
            "absent.toml; check the path given by OVERSPILL_CONFIG",
        ),
        ("OVERSPILL_KAFKA", "broker-1:9092", "set its parts instead"),
        ("OVERSPILL_KAFKA__BROKER", "b:9092", "there is no setting kafka.broker"),
    ],
)
def test_a_variable_that_cannot_be_followed_is_named(
    variable: str,
    value: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(["status"]) == 2
    assert_one_line(capsys.readouterr().err, says)


def assert_one_line(told: str, says: str) -> None:
    assert told.startswith("error: ")
    assert says in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["results"],
        ["submit", "--model", "m", "--prompt", "p"],
        ["submit", "--model", "m", "--prompt", "p", "--wait"],
        ["topics", "create"],
        ["topics", "grow"],
        ["topics", "check"],
        ["offsets", "show"],
        ["offsets", "accept", "router", "--at", "latest"],
        ["nodes", "list"],
        ["nodes", "drain", "gpu-1", "--why", "w"],
        ["pools", "list"],
        ["pools", "pause", "cpu", "--why", "w"],
        ["threshold", "show"],
        ["threshold", "release"],
    ],
    ids=" ".join,
)
def test_a_broker_that_is_away_is_one_line_and_exit_code_3(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    servers = f"127.0.0.1:{free_port()}"
    assert main([*command, "--bootstrap-servers", servers]) == 3
    told = capsys.readouterr().err
    assert told.startswith(f"error: no Kafka broker answers at {servers}")
    assert told.count("\n") == 1


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERSPILL_DEBUG", "1")
    assert main(["status", "--config", "absent.toml"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_what_nobody_foresaw_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a line\nand another")

    monkeypatch.setattr("runtime.settings.load_settings", lambda *_: broken(0))
    assert main(["status"]) == 1
    told = capsys.readouterr().err
    assert told == ("error: RuntimeError: a line and another; OVERSPILL_DEBUG=1 shows where\n")


@pytest.mark.parametrize("printed_by", ["click.echo", "console().print"])
def test_a_reader_that_has_seen_enough_is_no_error(printed_by: str) -> None:
    """As in `overspill results | head -1`."""
    script = (
        "import sys, click; from deploy.cli import entry; from deploy.cli.tables import console\n"
        f"def endless(): [{printed_by}('y' * 99) for _ in range(9999)]\n"
        "entry.cli.get_command = lambda *_: click.Command('x', callback=endless)\n"
        "sys.exit(entry.main(['x']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"y" * 99 + b"\n"
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (0, b"")


def test_settings_come_from_flags_before_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    (tmp_path / "overspill.toml").write_text('[kafka]\nbootstrap_servers = "file.invalid:1"\n')
    monkeypatch.setenv("OVERSPILL_KAFKA__BOOTSTRAP_SERVERS", "environment.invalid:1")
    assert main(["status", "--set", f"kafka.bootstrap_servers=127.0.0.1:{port}"]) == 3
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_the_decision_benchmark_answers_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "decide", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["policies"]
    assert all(one["median_us"] > 0 for one in told)
    assert {"overflow", "predictive"} <= {one["policy"] for one in told}


@pytest.mark.parametrize("setting", ["policy.name", "policy.shadow"])
def test_a_policy_that_nobody_knows_is_told_before_anything_starts(
    setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    assert main(["up", "--data-dir", str(data), "--set", f"{setting}=foo"]) == 2
    assert "no policy is named 'foo'; choose one of overflow" in capsys.readouterr().err
    assert not data.exists()
