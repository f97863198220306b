"""What deploy/ holds is what the code declares, and is accepted by the tools that will read it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from deploy.cli.entry import cli
from deploy.generate import VERSION
from deploy.local.kafka.configuration import server_properties
from runtime.settings import Settings, load_settings
from schemas.metrics import BY_ROLE
from schemas.pools import DEFAULT_POOLS
from schemas.topics import PRODUCTION_PARTITIONS, TopicNames, catalogue, changelogs
from tests import tools

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
DOCKERFILE = (DEPLOY / "image" / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
ROLES = {name: of for name, of in SERVICES.items() if of["image"].startswith("overspill:")}
POOLS = {pool.name for pool in DEFAULT_POOLS}
METRICS = {metric.name for declared in BY_ROLE.values() for metric in declared}
PORT = 9100
KUBERNETES = "1.33"


def tool(name: str) -> str:
    """Return where a tool is; without it the test is skipped."""
    path = BIN / name
    if not path.exists():
        pytest.skip(f"{name} is not here: `make tools` installs it")
    return str(path)


def run(*command: str, **variables: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def rendered() -> str:
    """What `kubectl apply -k` would send."""
    return run(tool("kubectl"), "kustomize", str(DEPLOY / "kubernetes"))


@pytest.fixture(scope="module")
def resources(rendered: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(rendered))


def of_kind(resources: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    found = [resource for resource in resources if resource["kind"] in kinds]
    assert found
    return found


def workloads(resources: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the pod templates by name."""
    kinds = of_kind(resources, "Deployment", "StatefulSet")
    return {r["metadata"]["name"]: r["spec"]["template"]["spec"] for r in kinds}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["containers"]
    return dict(only)


def parse(arguments: list[str]) -> None:
    """Parse a command line as `overspill` would, without running it."""
    group: click.Command = cli
    context = click.Context(group, info_name="overspill")
    rest = list(arguments)
    while isinstance(group, click.Group):
        name, found, rest = group.resolve_command(context, rest)
        assert found is not None
        context = found.make_context(name, rest, parent=context)
        if isinstance(found, click.Group):
            rest = [*context._protected_args, *context.args]
        group = found


def is_setting(variable: str) -> bool:
    path = variable.removeprefix("OVERSPILL_").lower().split("__")
    model: Any = Settings
    for step in path:
        field = model.model_fields.get(step)
        if field is None:
            return False
        model = field.annotation
    return True


def test_the_image_passes_its_linter() -> None:
    run(tool("hadolint"), str(DEPLOY / "image" / "Dockerfile"))


def test_the_image_is_built_in_two_stages_and_runs_as_nobody_special() -> None:
    assert DOCKERFILE.count("\nFROM ") == 2
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert "\nUSER 10001:10001\n" in last
    assert "pip install" not in last


def test_the_image_installs_what_the_hashes_say_and_what_we_test() -> None:
    assert "--require-hashes --only-binary :all: -r requirements.lock" in DOCKERFILE
    locked = (DEPLOY / "image" / "requirements.lock").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", locked, re.MULTILINE))
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert {"aiokafka", "faust-streaming", "xllamacpp", "opentelemetry-sdk"} <= pins.keys()
    for name, pin in pins.items():
        assert any(line.startswith(f"{name}=={pin}") for line in tested), (name, pin)


def test_compose_takes_the_file_and_wants_a_password_for_grafana() -> None:
    compose = [tool("docker-compose"), "-f", str(DEPLOY / "compose" / "compose.yaml")]
    run(*compose, "config", "--quiet", GRAFANA_PASSWORD="x")  # noqa: S106  of nothing
    without = {name: value for name, value in os.environ.items() if name != "GRAFANA_PASSWORD"}
    refused = subprocess.run(
        [*compose, "config", "--quiet"], env=without, capture_output=True, text=True, check=False
    )
    assert "GRAFANA_PASSWORD" in refused.stderr
    assert refused.returncode != 0


@pytest.mark.parametrize("name", ROLES)
def test_a_service_runs_a_command_that_exists_with_a_closed_file_system(name: str) -> None:
    service = ROLES[name]
    parse(service["command"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["image"] == f"overspill:{VERSION}"
    assert all(map(is_setting, service["environment"]))


def test_compose_has_a_node_of_every_pool_and_all_roles() -> None:
    assert ROLES.keys() == {"topics", "control", "router", *(f"executor-{p}" for p in POOLS)}
    for pool in POOLS:
        assert f"--pool={pool}" in ROLES[f"executor-{pool}"]["command"]


def test_compose_opens_ports_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_kafka_of_compose_behaves_as_the_embedded_one() -> None:
    lines = server_properties(log_dir=Path("/x"), port=1, controller_port=2).splitlines()
    ours = dict(line.split("=", 1) for line in lines)
    theirs = SERVICES["kafka"]["environment"]
    alike = {
        name: str(theirs[variable])
        for name in ours
        if (variable := "KAFKA_" + name.upper().replace(".", "_")) in theirs
    }
    of_its_place = {"process.roles", "node.id", "controller.quorum.voters", "listeners",
                    "advertised.listeners", "listener.security.protocol.map", "log.dirs",
                    "inter.broker.listener.name", "controller.listener.names"}  # fmt: skip
    compared = alike.keys() - of_its_place
    assert {"message.max.bytes", "broker.session.timeout.ms"} <= compared
    assert {name: alike[name] for name in compared} == {name: ours[name] for name in compared}
    assert SERVICES["kafka"]["stop_signal"] == "SIGKILL"


def test_what_compose_mounts_is_there() -> None:
    mounts = [str(v) for service in SERVICES.values() for v in service.get("volumes", [])]
    files = [mount.split(":")[0] for mount in mounts if mount.startswith(".")]
    assert len(files) == 6
    assert all((DEPLOY / "compose" / file).exists() for file in files)
    assert sorted((DEPLOY / "prometheus").glob("overspill-*.yaml"))
    assert sorted((DEPLOY / "grafana").glob("*.json"))


def test_prometheus_scrapes_every_role_where_the_image_serves() -> None:
    assert f"OVERSPILL_WEB__PORT={PORT}" in DOCKERFILE
    assert f"EXPOSE {PORT}" in DOCKERFILE
    assert all(map(is_setting, re.findall(r"(OVERSPILL_\w+)=", DOCKERFILE)))
    scraped = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text(encoding="utf-8"))
    (static,) = scraped["scrape_configs"][0]["static_configs"]
    assert set(static["targets"]) == {f"{role}:{PORT}" for role in ROLES if role != "topics"}


def test_alerts_of_compose_reach_its_alertmanager_with_the_routing_of_the_example() -> None:
    told = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text(encoding="utf-8"))
    (manager,) = told["alerting"]["alertmanagers"]
    (target,) = manager["static_configs"][0]["targets"]
    service, _, port = target.partition(":")
    assert SERVICES[service]["ports"] == [f"127.0.0.1:{port}:{port}"]
    mounted = dict(str(volume).split(":")[:2] for volume in SERVICES[service]["volumes"])
    routing = mounted["../prometheus/alertmanager.yml"]
    assert f"--config.file={routing}" in SERVICES[service]["command"]


@pytest.mark.parametrize("folder", ["compose", "prometheus"])
def test_prometheus_takes_its_configuration(folder: str) -> None:
    run(tools.tool("promtool"), "check", "config", str(DEPLOY / folder / "prometheus.yml"))


def test_kubernetes_takes_what_is_its_own(rendered: str, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(rendered, encoding="utf-8")
    run(tool("kubernetes-validate"), "--strict", "-k", KUBERNETES, str(file))


def test_kubernetes_runs_every_role_with_commands_and_settings_that_exist(
    resources: list[dict[str, Any]],
) -> None:
    pods = workloads(resources)
    assert pods.keys() == {"control", "router", *(f"node-{pool}" for pool in POOLS)}
    for name, pod in pods.items():
        only = container(pod)
        parse(only["args"])
        if name.startswith("node-"):
            assert f"--pool={name.removeprefix('node-')}" in only["args"]
        named = [each["name"] for each in only["env"] if each["name"] != "OVERSPILL_CONFIG"]
        assert all(map(is_setting, named))
        assert only["image"] == f"overspill:{VERSION}"


def test_a_pod_may_write_nothing_and_be_nobody(resources: list[dict[str, Any]]) -> None:
    for pod in workloads(resources).values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        only = container(pod)["securityContext"]
        assert only["readOnlyRootFilesystem"] is True
        assert only["allowPrivilegeEscalation"] is False
        assert only["capabilities"] == {"drop": ["ALL"]}


def test_a_pod_is_judged_alive_by_itself_and_ready_by_its_work(
    resources: list[dict[str, Any]],
) -> None:
    for pod in workloads(resources).values():
        only = container(pod)
        assert only["ports"] == [{"name": "web", "containerPort": PORT}]
        assert only["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "web"}
        assert only["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "web"}
        assert pod["terminationGracePeriodSeconds"] > 10


def test_routers_and_nodes_keep_their_names(resources: list[dict[str, Any]]) -> None:
    for resource in of_kind(resources, "StatefulSet"):
        env = {
            each["name"]: each for each in container(resource["spec"]["template"]["spec"])["env"]
        }
        source = env["OVERSPILL_KAFKA__INSTANCE_ID"]["valueFrom"]
        assert source == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_each_workload_is_a_user_of_its_own_with_a_secret_of_that_name(
    resources: list[dict[str, Any]],
) -> None:
    known = {user["metadata"]["name"] for user in of_kind(resources, "KafkaUser")}
    names = []
    for pod in workloads(resources).values():
        env = {each["name"]: each.get("value") for each in container(pod)["env"]}
        secrets = {v["name"]: v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v}
        names.append(env["OVERSPILL_KAFKA__USERNAME"])
        assert env["OVERSPILL_KAFKA__USERNAME"] == secrets["user"]
    assert len(set(names)) == len(names)
    assert set(names) <= known


def test_the_settings_that_pods_share_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERSPILL_KAFKA__USERNAME", "overspill-router")
    monkeypatch.setenv("OVERSPILL_KAFKA__PASSWORD_FILE", "/etc/overspill/user/password")
    settings = load_settings(DEPLOY / "kubernetes" / "overspill.toml")
    assert settings.kafka.security_protocol == "SASL_SSL"


def test_strimzi_makes_every_topic_and_only_those(resources: list[dict[str, Any]]) -> None:
    names = TopicNames()
    declared = (*catalogue(names, DEFAULT_POOLS, PRODUCTION_PARTITIONS), *changelogs(names))
    made = {r["metadata"]["name"]: r["spec"] for r in of_kind(resources, "KafkaTopic")}
    assert {name: spec["partitions"] for name, spec in made.items()} == {
        topic.name: topic.partitions for topic in declared
    }


def test_every_pool_is_scaled_by_its_own_count_up_to_its_partitions(
    resources: list[dict[str, Any]],
) -> None:
    scaled = of_kind(resources, "ScaledObject")
    assert {r["metadata"]["name"] for r in scaled} == {f"node-{pool}" for pool in POOLS}
    pods = workloads(resources)
    for resource in scaled:
        name, spec = resource["metadata"]["name"], resource["spec"]
        assert spec["scaleTargetRef"]["name"] == name
        assert spec["maxReplicaCount"] == PRODUCTION_PARTITIONS
        (trigger,) = spec["triggers"]
        assert f'pool="{name.removeprefix("node-")}"' in trigger["metadata"]["query"]
        slots = f"--slots={trigger['metadata']['threshold']}"
        assert slots in container(pods[name])["args"]


def test_metrics_that_manifests_name_are_declared(rendered: str) -> None:
    named = set(re.findall(r"overspill_[a-z_]+", rendered))
    assert named
    assert named <= METRICS


def test_resources_of_other_operators_have_no_field_that_these_do_not_know(
    resources: list[dict[str, Any]],
) -> None:
    """The schemas are ours, written from the operators' references, with what we use of them."""
    jsonschema = pytest.importorskip("jsonschema")
    schemas = json.loads((Path(__file__).parent / "custom_resources.json").read_text())
    checked = [resource for resource in resources if resource["kind"] in schemas]
    assert {resource["kind"] for resource in checked} == schemas.keys()
    for resource in checked:
        jsonschema.validate(resource, schemas[resource["kind"]])
