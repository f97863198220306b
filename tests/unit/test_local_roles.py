"""Roles as processes: restarted with patience, given up on with last words, never orphaned."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.local import stack
from deploy.local.fleet import LAPTOP, hardware, registry, roles
from deploy.local.stack import QUICK_S, Quickness, StackFailed, Watched
from runtime import leash
from runtime.role import RoleProcess, RoleSpec
from runtime.settings import load_settings, parse_flag
from schemas.errors import UsageError
from schemas.features import REALTIME_SLO_MS
from schemas.pools import DEFAULT_POOLS
from schemas.topics import catalogue
from tests.waiting import has_ended, wait_until

WITHIN_S = 30.0
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "tensor-parallel.toml"

PARENT = """
import subprocess, sys, os, time
command = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
leashed = [sys.executable, sys.argv[1], str(os.getpid()), *command]
child = subprocess.Popen(leashed, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_leashed_process_ends_with_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", PARENT, leash.__file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert not has_ended(child)
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: has_ended(child), "the child's end", WITHIN_S)


def test_a_leash_does_not_start_what_has_no_parent_any_more(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    command = [
        sys.executable,
        leash.__file__,
        "1",
        sys.executable,
        "-c",
        f"open({str(mark)!r}, 'w')",
    ]
    subprocess.run(command, check=True)
    assert not mark.exists()


def test_pauses_grow_with_quick_deaths_and_the_third_is_the_last() -> None:
    once = Quickness().after(lived_s=1.0)
    twice = once.after(lived_s=1.0)
    assert twice.pause_s == 2 * once.pause_s
    assert not twice.hopeless
    assert twice.after(lived_s=1.0).hopeless


def test_a_role_that_worked_for_a_while_is_forgiven() -> None:
    twice = Quickness().after(lived_s=1.0).after(lived_s=1.0)
    assert twice.after(lived_s=QUICK_S).deaths == 1


def test_a_role_that_keeps_dying_ends_the_stack_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "QUICK_S", 120.0)  # however long a process takes to start here
    spec = RoleSpec("router", ("router", "--set=policy.colour=red"))
    watched = Watched(RoleProcess(spec, tmp_path / "router.log"))
    said: list[str] = []
    with pytest.raises(StackFailed, match=r"3 times in a row \(exit code 2\).*policy.colour"):  # noqa: PT012  until it gives up
        while True:
            watched.look(said.append)
            time.sleep(0.02)
    assert len(said) == 2
    assert all(line.startswith("router stopped (exit code 2: error: ") for line in said)


def test_roles_get_the_stacks_settings_whatever_files_and_variables_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = load_settings(
        flags={"prefix": "mine.", "policy.name": "gpu-only", "kafka.bootstrap_servers": "h:1"}
    )
    (tmp_path / "overspill.toml").write_text('prefix = "file."\n[policy]\nname = "overflow"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERSPILL_PREFIX", "environment.")
    for spec in roles(settings, LAPTOP):
        flags = [flag for flag in spec.arguments if flag.startswith("--set=")]
        given = load_settings(None, dict(parse_flag(flag[len("--set=") :]) for flag in flags))
        # The engines of its three nodes share the processors of the machine.
        shared = {"llama": {"executors_on_host": 3}}
        assert given.model_dump() == {**settings.model_dump(), "backends": shared}


def test_what_the_user_says_of_a_backend_goes_before_what_the_stack_would() -> None:
    told = {"llama": {"threads": 2, "executors_on_host": 1}, "openai": {"url": "http://h/v1"}}
    settings = load_settings(None, {"backends": told})
    node = next(spec for spec in roles(settings, LAPTOP) if spec.name == "executor-cpu")
    said = [flag[len("--set=") :] for flag in node.arguments if flag.startswith("--set=backends=")]
    assert dict(map(parse_flag, said)) == {"backends": told}


def test_there_is_a_node_for_every_pool() -> None:
    names = [spec.name for spec in roles(load_settings(), LAPTOP)]
    assert names == ["control", "router", "executor-gpu", "executor-cpu", "executor-npu"]


def test_the_example_of_a_tensor_parallel_lane_has_a_faster_node_for_it() -> None:
    settings = load_settings(EXAMPLE)
    found = hardware(settings.pools, LAPTOP)
    assert list(found) == ["gpu", "gpu-tp", "cpu", "npu"]
    assert (found["gpu-tp"].run_ms or 0) < REALTIME_SLO_MS < (found["gpu"].run_ms or 0)
    node = next(spec for spec in roles(settings, LAPTOP) if spec.name == "executor-gpu-tp")
    assert {"--pool=gpu-tp", "--backend=emulated", "--profile=fixed:80"} <= set(node.arguments)
    topics = {topic.name for topic in catalogue(settings.topics, settings.pools)}
    assert {"overspill.gpu-tp", "overspill.gpu-tp.express"} <= topics


@pytest.mark.parametrize("wrong", [{"express": False}, {"compute_type": "cpu"}], ids=str)
def test_a_tensor_parallel_lane_without_an_express_topic_or_gpus_is_refused(
    wrong: dict[str, Any],
) -> None:
    lane = {"name": "gpu-tp", "compute_type": "gpu", "cost_coefficient": 4.0, "express": True}
    pools = [pool.model_dump(mode="json") for pool in DEFAULT_POOLS]
    with pytest.raises(UsageError, match="realtime work on several GPUs"):
        load_settings(None, {"pools": [*pools, {**lane, **wrong}]})


def test_the_registry_knows_the_small_model_by_its_size() -> None:
    (record,) = registry()
    assert record.name == "tiny-docs-small"
    assert record.parameters is not None
    assert record.parameters < 1_000_000_000
