"""The doctor finds what is wrong, says what to do, and calls nothing wrong that is well."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from deploy.cli import main
from deploy.doctor.finding import Finding, Grade, bad, exit_code_of, failed, odd, well
from deploy.doctor.fleet import judge_clocks, judge_fleet
from deploy.doctor.host import judge_disk, look_at_host
from deploy.doctor.rights import judge_rights
from deploy.doctor.variables import judge_variables
from runtime.kafka.connection import unreachable
from runtime.ports import free_port
from runtime.settings import WebSettings
from schemas.control import NodeState, PartitionState, PoolState, Snapshot
from schemas.errors import BrokerRefuses, OverspillError, TopicMismatch
from schemas.pools import DEFAULT_POOLS
from schemas.topics import TopicNames, catalogue

NOW_MS = 1_000_000
NAMES = TopicNames("p.")
ALL = frozenset({"Read", "Write", "Describe"})


def snapshot(
    *nodes: NodeState, partitions: int = 2, paused: bool = False, age_s: float = 0.2
) -> Snapshot:
    states = tuple(PartitionState(unfinished=3, finish_rate=0.0) for _ in range(partitions))
    pool = PoolState(
        paused=paused, reason="why", routed_total=0, finished_total=0, partitions=states
    )
    return Snapshot(
        number=1, generation=4, probed_at_ms=0, published_at_ms=int(NOW_MS - age_s * 1000),
        threshold=10, pools={"gpu": pool}, nodes=nodes, requests_included=(), retry_included=(),
    )  # fmt: skip


def node(name: str, *partitions: int, live: bool = True, reason: str = "") -> NodeState:
    return NodeState(
        id=name, pool="gpu", live=live, slots=4, partitions=partitions, latency_ms=5.0,
        reason=reason,
    )  # fmt: skip


def seen(*nodes: NodeState, **others: object) -> list[tuple[Grade, str]]:
    findings = judge_fleet(snapshot(*nodes, **others), NOW_MS)  # type: ignore[arg-type]
    return [(found.grade, found.what) for found in findings]


def test_a_variable_that_nothing_reads_is_told() -> None:
    unread = {
        "OVERSPILL_BACKENDS_OPENAI_URL": "http://127.0.0.1:8000/v1",
        "OVERSPILL_POLICY_NAME": "predictive",
        "OVERSPILL_WEB_PORT": "9102",
    }
    others = {
        "OVERSPILL_POLICY__NAME": "predictive",
        "overspill_prefix": "p.",
        "OVERSPILL_CONFIG": "overspill.toml",
        "OVERSPILL_DEBUG": "1",
        "OVERSPILL_CONTROL_SERVICE_HOST": "10.0.0.1",
        "OVERSPILL_CONTROL_PORT": "tcp://10.0.0.1:9102",
        "OVERSPILL_CONTROL_PORT_9102_TCP_ADDR": "10.0.0.1",
        "PATH": "/bin",
    }
    found = list(judge_variables(unread | others))
    assert [(each.grade, each.what.split()[0]) for each in found] == [
        (Grade.ODD, name) for name in unread
    ]


def test_a_fleet_that_owns_its_partitions_needs_nothing() -> None:
    grades = {grade for grade, _ in seen(node("a", 0), node("b", 1))}
    assert grades == {Grade.WELL}


def test_an_unhealthy_node_is_told_with_its_reason() -> None:
    sick = node("b", live=False, reason="unhealthy: refused")
    assert (Grade.BAD, "node b: unhealthy: refused") in seen(node("a", 0, 1), sick)


def test_a_pool_without_a_live_node_says_what_waits_on_it() -> None:
    assert (Grade.BAD, "no live node, 6 records wait") in seen()


def test_more_nodes_than_partitions_and_partitions_without_a_node_are_odd() -> None:
    crowd = seen(node("a", 0), node("b", 1), node("c"))
    assert (Grade.ODD, "3 nodes for 2 partitions: 1 idle") in crowd
    assert (Grade.ODD, "1 of 2 partitions have no live owner") in seen(node("a", 0))


def test_a_paused_pool_is_told() -> None:
    assert (Grade.ODD, "paused: why") in seen(node("a", 0, 1), paused=True)


def test_a_control_plane_that_is_silent_or_never_spoke_is_bad() -> None:
    for said in (None, snapshot(age_s=60)):
        (only,) = judge_fleet(said, NOW_MS)
        assert (only.about, only.grade) == ("control", Grade.BAD)
        assert "overspill control" in only.cure


@pytest.mark.parametrize(
    ("age_s", "grade"), [(0.4, Grade.WELL), (-3.0, Grade.ODD), (3.0, Grade.ODD), (400.0, Grade.BAD)]
)
def test_clocks_apart_are_found(age_s: float, grade: Grade) -> None:
    (only,) = judge_clocks({"node a": age_s})
    assert only.grade is grade
    assert grade is Grade.WELL or ("behind" in only.what) == (age_s > 0)


def test_a_disk_is_judged_by_what_is_left_and_by_its_size() -> None:
    gib = 1 << 30
    grades = [judge_disk(Path("/d"), 100 * gib, free * gib).grade for free in (50, 3, 0)]
    assert grades == [Grade.WELL, Grade.ODD, Grade.BAD]


def test_a_port_that_is_taken_is_bad(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        taken = WebSettings(port=listening.getsockname()[1])
        port, _ = look_at_host(taken, tmp_path)
        assert (port.about, port.grade, port.exit_code) == ("port", Grade.BAD, 2)
    port, _ = look_at_host(WebSettings(port=0), tmp_path / "not" / "there")
    assert port.grade is Grade.WELL


@pytest.mark.parametrize("role", ["router", "control", "executor"])
def test_a_role_with_all_rights_lacks_none_and_each_that_is_missing_is_named(role: str) -> None:
    every = {topic.name: ALL for topic in catalogue(NAMES, DEFAULT_POOLS)}
    (fine,) = judge_rights(role, NAMES, DEFAULT_POOLS, every)
    assert fine.grade is Grade.WELL
    described = {**every, NAMES.control: frozenset({"Describe"})}
    lacking = list(judge_rights(role, NAMES, DEFAULT_POOLS, described))
    expected = {
        "router": ["router: no Read on p.control"],
        "control": ["control: no Read and Write on p.control"],
        "executor": [fine.what],
    }
    assert [found.what for found in lacking] == expected[role]


def test_the_weightiest_finding_decides_how_the_command_ends_wherever_it_stands() -> None:
    findings: list[Finding] = [well("a", "b"), odd("a", "b", "c")]
    assert exit_code_of(findings) == 0
    for code in (1, 2, 4, 3):  # any, a setting, a backend, the broker
        findings = [bad("a", "b", "c", code), *findings, bad("a", "b", "c", 1)]
        assert exit_code_of(findings) == code
        assert exit_code_of(reversed(findings)) == code


@pytest.mark.parametrize(
    ("error", "what", "cure"),
    [
        (unreachable({"bootstrap_servers": "h:9"}), "no Kafka broker answers at h:9", "start "),
        (TopicMismatch("topic t has a=1, declared is 2", "set it"), "topic t has a=1", "set it"),
        (BrokerRefuses("h:9 refuses us: no TLS", "port: see"), "h:9 refuses us: no TLS", "port: s"),
        (TopicMismatch("topic t is refused: policy: no"), "topic t is refused: policy: no", ""),
    ],
)
def test_what_to_do_is_said_once(error: OverspillError, what: str, cure: str) -> None:
    found = failed("a", error)
    assert found.what.startswith(what)
    assert found.cure.startswith(cure)
    assert f"{found.what}: {found.cure}".removesuffix(": ") == str(error)
    assert found.exit_code == error.exit_code


@pytest.mark.parametrize("flag", ["--pool=cpu", "--url=http://h/v1", "--profile=fixed:5"])
def test_how_to_try_a_backend_needs_a_backend_to_try(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--role=router", flag]) == 2
    assert "name it with --backend" in capsys.readouterr().err


def test_a_backend_is_tried_as_a_node_of_its_pool_would_run_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nowhere = f"--bootstrap-servers=127.0.0.1:{free_port()}"
    emulated = ["doctor", nowhere, "--json", "--backend=emulated", "--pool=npu"]
    assert main([*emulated, "--profile=fixed:5"]) == 3
    last = json.loads(capsys.readouterr().out)["findings"][-1]
    assert (last["grade"], last["what"]) == (
        "well", "latency profile on emulated npu, emulated, alive"
    )  # fmt: skip
    assert main(emulated) == 3  # the broker weighs more
    last = json.loads(capsys.readouterr().out)["findings"][-1]
    assert (last["exit_code"], "needs --profile" in last["what"]) == (2, True)
    assert main(["doctor", "--backend=emulated", "--pool=tpu"]) == 2
    assert "no pool 'tpu'" in capsys.readouterr().err


def test_rights_are_those_of_the_pools_that_an_executor_works_for() -> None:
    every = {topic.name: ALL for topic in catalogue(NAMES, DEFAULT_POOLS)}
    others = {**every, NAMES.pool("cpu"): frozenset({"Describe"})}
    grades = [
        {found.grade for found in judge_rights("executor", NAMES, (pool,), others)}
        for pool in DEFAULT_POOLS
    ]
    bad_for = [pool.name for pool, seen in zip(DEFAULT_POOLS, grades, strict=True)
               if Grade.BAD in seen]  # fmt: skip
    assert bad_for == ["cpu"]


def test_without_a_broker_it_says_so_and_still_tries_the_backend(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nowhere = f"--bootstrap-servers=127.0.0.1:{free_port()}"
    code = main(["doctor", nowhere, "--backend=llama", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    about = {found["about"]: found for found in findings}
    assert (code, about["broker"]["grade"]) == (3, "bad")
    assert "--bootstrap-servers" in about["broker"]["cure"]
    assert "--bootstrap-servers" not in about["broker"]["what"]
    assert about["backend llama"]["grade"] == "well"
    assert "LoRA" in about["backend llama"]["what"]


def test_a_backend_that_is_not_there_ends_it_with_four(capsys: pytest.CaptureFixture[str]) -> None:
    from deploy.doctor import visit  # noqa: PLC0415  replaced below

    async def nothing(*_: object) -> object:
        return
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visit, "look_at_brokers", nothing)

        async def silence(_: object) -> tuple[None, dict[str, float]]:
            return None, {}

        patch.setattr(visit, "listen", silence)
        patch.setattr(visit, "judge_fleet", lambda *_: ())
        code = main(["doctor", "--backend=llama", "--set=backends.llama.model_path=/none.gguf",
                     "--set=backends.llama.model_name=m"])  # fmt: skip
    assert code == 4
    assert "BAD  backend llama: no file /none.gguf" in capsys.readouterr().out
