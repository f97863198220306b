"""On a broker with TLS, SCRAM and an authorizer: the job is done, and each role can do no more."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import orjson
import psutil
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition
from confluent_kafka import Consumer, Producer

from runtime.connection import connection_of
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.transactions import FencedProducer
from runtime.role import RoleProcess, RoleSpec
from runtime.settings import load_settings, parse_flag
from schemas.access import Operation, Resource, grants
from schemas.errors import BrokerRefuses
from schemas.pools import DEFAULT_POOLS
from schemas.roles import Role
from schemas.topics import TopicNames, catalogue, changelogs
from tests.kafka.closed_kafka import CANARY, ClosedKafka, closed_kafka
from tests.kafka.documented_clients import run_clients, settings
from tests.kafka.papers import Papers
from tests.kafka.system import get
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

REQUESTS = 20
READY_S = 120
NAMES = TopicNames()
ALL = [topic.name for topic in (*catalogue(NAMES, DEFAULT_POOLS), *changelogs(NAMES))]
GPU = tuple(pool for pool in DEFAULT_POOLS if pool.name == "gpu")
CPU = tuple(pool for pool in DEFAULT_POOLS if pool.name == "cpu")
USERS = {
    "router": (Role.ROUTER, DEFAULT_POOLS),
    "control": (Role.CONTROL, DEFAULT_POOLS),
    "gpu-node": (Role.EXECUTOR, GPU),
    "client": (Role.CLIENT, DEFAULT_POOLS),
    "monitor": (Role.MONITOR, DEFAULT_POOLS),
    "operator": (Role.OPERATOR, DEFAULT_POOLS),
}
CERTIFIED = "cpu-node"
CERTIFIED_CLIENT = "kcat"
"""Known by their certificates; the others by their passwords."""
IMPLY_DESCRIBE = {Operation.READ, Operation.WRITE, Operation.ALTER}


class Ran(NamedTuple):
    """What is left of a run of the main job."""

    kafka: ClosedKafka
    results: list[bytes]
    finished: dict[str, int]
    denied: list[str]
    shown: dict[str, str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder = tmp_path_factory.mktemp("closed")
    with ExitStack() as running:
        kafka = running.enter_context(closed_kafka(folder))
        kafka.admit(*USERS)
        for user, (role, pools) in USERS.items():
            kafka.allow(f"User:{user}", grants(role, NAMES, pools))
        kafka.allow(f"User:CN={CERTIFIED}", grants(Role.EXECUTOR, NAMES, CPU))
        kafka.allow(f"User:CN={CERTIFIED_CLIENT}", grants(Role.CLIENT, NAMES, DEFAULT_POOLS))
        yield asyncio.run(main_job(kafka, running))


async def main_job(kafka: ClosedKafka, running: ExitStack) -> Ran:
    created = command(kafka, "operator", "topics", "create", "--partitions=2")
    roles = [
        started(running, kafka, "control", "control", *by_password(kafka, "control")),
        started(
            running, kafka, "router", "router", "--set=policy.name=round-robin",
            *by_password(kafka, "router"),
        ),
        started(running, kafka, "gpu-node", *node("gpu"), *by_password(kafka, "gpu-node")),
        started(running, kafka, CERTIFIED, *node("cpu"), *by_certificate(kafka, CERTIFIED)),
    ]  # fmt: skip
    await until(lambda: all_ready(roles), READY_S, poll_s=0.1)
    results = await asyncio.to_thread(send_and_read, kafka)
    told = command(kafka, "monitor", "status", "--json")
    await asyncio.to_thread(run_clients, places(kafka), kafka.folder)
    diagnosis = await asyncio.to_thread(run, kafka, "operator", "doctor")
    page = await get(f"{roles[0].url}/board")
    metrics = [await get(f"{role.url}/metrics") for role in roles]
    lines = [" ".join(psutil.Process(role.pid).cmdline()) for role in roles]
    for role in roles:
        role.ask_to_stop()
        await asyncio.to_thread(role.wait)
    pools = orjson.loads(told)["pools"]
    return Ran(
        kafka,
        results,
        {name: pool["finished_total"] for name, pool in pools.items()},
        [line for line in kafka.said().splitlines() if " is Denied " in line],
        {
            **{role.name: role.log_file.read_text() for role in roles},
            "commands": created + told,
            "doctor": diagnosis.stdout + diagnosis.stderr,
            "the page": page,
            "metrics": "".join(metrics),
            "arguments": "".join(lines),
            "the broker": kafka.said(),
        },
    )


def node(pool: str) -> tuple[str, ...]:
    return ("executor", f"--pool={pool}", "--backend=emulated", "--slots=4", "--profile=fixed:5")


def by_password(kafka: ClosedKafka, user: str) -> list[str]:
    return [
        f"--bootstrap-servers={kafka.broker.bootstrap_servers}",
        "--set=kafka.security_protocol=SASL_SSL",
        f"--set=kafka.ca_file={kafka.papers.authorities}",
        f"--set=kafka.username={user}",
        f"--set=kafka.password_file={kafka.password_file(user)}",
    ]


def by_certificate(kafka: ClosedKafka, name: str) -> list[str]:
    return [
        f"--bootstrap-servers={kafka.broker.certificate_servers}",
        "--set=kafka.security_protocol=SSL",
        f"--set=kafka.ca_file={kafka.papers.authorities}",
        f"--set=kafka.certificate_file={kafka.papers.certificate(name)}",
    ]


def started(running: ExitStack, kafka: ClosedKafka, name: str, *arguments: str) -> RoleProcess:
    loud = (*arguments, "--set=log.level=DEBUG")  # libraries too: what they say must hide it
    role = RoleProcess(RoleSpec(name, loud), kafka.folder / f"{name}.log")
    role.start()
    running.callback(role.kill)
    return role


async def all_ready(roles: list[RoleProcess]) -> bool:
    ended = [f"{role.name}: {role.ended}, {role.last_line}" for role in roles if role.ended]
    assert not ended
    return all([await get(f"{role.url}/readyz") == "ok\n" for role in roles])


def run(kafka: ClosedKafka, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as this user, its password in the environment."""
    flags = [flag for flag in by_password(kafka, user) if "password_file" not in flag]
    return subprocess.run(
        [sys.executable, "-m", "deploy.cli", *arguments, *flags],
        env={**os.environ, "OVERSPILL_KAFKA__PASSWORD": kafka.password(user)},
        capture_output=True,
        text=True,
        check=False,
    )


def command(kafka: ClosedKafka, user: str, *arguments: str) -> str:
    """Return what a command says that succeeds."""
    done = run(kafka, user, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def places(kafka: ClosedKafka) -> dict[str, dict[str, str]]:
    """Return what docs/clients.md says to set for each client, with users that are known here."""
    authority, password = str(kafka.papers.authorities), kafka.password("client")
    certificate = str(kafka.papers.certificate(CERTIFIED_CLIENT))
    for_java, for_kcat = kafka.folder / "client.properties", kafka.folder / "kcat.conf"
    for_java.write_text(
        settings("jaas", {"ca.pem": authority, "caller": "client", "its-password": password})
    )
    for_kcat.write_text(settings("certificate", {"ca.pem": authority, "caller.pem": certificate}))
    by_password = {"BOOTSTRAP_SERVERS": kafka.broker.bootstrap_servers}
    who = {"KAFKA_USERNAME": "client", "KAFKA_PASSWORD": password, "KAFKA_CA_FILE": authority}
    return {
        "python": {**by_password, **who},
        "java": {**by_password, "KAFKA_PROPERTIES": str(for_java)},
        "kcat": {
            "BOOTSTRAP_SERVERS": kafka.broker.certificate_servers, "KCAT_CONFIG": str(for_kcat),
        },
    }  # fmt: skip


def send_and_read(kafka: ClosedKafka) -> list[bytes]:
    """Send requests and return the keys of as many results, with a client of another library."""
    producer = Producer(kafka.librdkafka("client"))
    for number in range(REQUESTS):
        request = {"id": f"r-{number}", "model_name": "m", "payload": {"prompt": "x"}}
        producer.produce(NAMES.requests, orjson.dumps(request), key=f"r-{number}")
    assert producer.flush(60) == 0
    group = {"group.id": f"{NAMES.prefix}client.test", "auto.offset.reset": "earliest"}
    consumer = Consumer({**kafka.librdkafka("client"), **group})
    consumer.subscribe([NAMES.results])
    keys: list[bytes] = []
    try:
        while len(keys) < REQUESTS:
            record = consumer.poll(60)
            assert record is not None, f"no more results after {len(keys)}"
            assert record.error() is None
            keys.append(record.key() or b"")
    finally:
        consumer.close()
    return keys


def test_every_request_has_its_result(ran: Ran) -> None:
    assert sorted(ran.results) == sorted(f"r-{number}".encode() for number in range(REQUESTS))


def test_nodes_known_by_password_and_by_certificate_both_work(ran: Ran) -> None:
    assert ran.finished["gpu"] > 0
    assert ran.finished["cpu"] > 0
    assert sum(ran.finished.values()) == REQUESTS


def test_no_role_asked_for_what_it_may_not_do(ran: Ran) -> None:
    assert ran.denied == []


def test_no_output_holds_a_password(ran: Ran) -> None:
    assert "SASL_SSL" in ran.shown["arguments"]
    assert "partitions" in ran.shown["doctor"]
    assert "pools" in ran.shown["the page"]
    assert [name for name, text in ran.shown.items() if CANARY in text] == []


@pytest.mark.parametrize("user", USERS)
def test_a_role_may_do_to_topics_exactly_what_is_declared(ran: Ran, user: str) -> None:
    """The broker itself says what each may do."""
    role, pools = USERS[user]
    declared: dict[str, set[str]] = {topic: set() for topic in ALL}
    for grant in grants(role, NAMES, pools):
        if grant.resource is Resource.TOPIC:
            describes = {Operation.DESCRIBE} & {*grant.operations} or (
                {Operation.DESCRIBE} if IMPLY_DESCRIBE & {*grant.operations} else set()
            )
            declared[grant.name] = {done.name for done in {*grant.operations, *describes}}
    assert ran.kafka.allowed(user, ALL) == declared


def connection(kafka: ClosedKafka, user: str) -> Connection:
    flags = [flag.removeprefix("--set=").removeprefix("--") for flag in by_password(kafka, user)]
    named = [flag.replace("bootstrap-servers", "kafka.bootstrap_servers") for flag in flags]
    return connection_of(load_settings(None, dict(map(parse_flag, named))))


async def test_a_node_is_refused_what_is_not_its_own(ran: Ran) -> None:
    """It cannot send requests, read another pool's, speak for control or look at routers."""
    node = connection(ran.kafka, "gpu-node")
    producer = AIOKafkaProducer(**node)
    await producer.start()
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait(NAMES.requests, b"{}")
    finally:
        await producer.stop()
    with pytest.raises(BrokerRefuses, match=r"does not allow this.*TransactionalId"):
        await FencedProducer(node, f"{NAMES.prefix}control").open()
    async with OffsetReader(node) as offsets:
        with pytest.raises(BrokerRefuses, match=rf"does not allow this.*{NAMES.pool('cpu')}"):
            await offsets.end([TopicPartition(NAMES.pool("cpu"), 0)])
        with pytest.raises(BrokerRefuses, match=r"does not allow this.*Group"):
            await offsets.all_committed(f"{NAMES.prefix}router")


async def test_who_is_not_known_is_told_what_to_check(ran: Ran, tmp_path: Path) -> None:
    known = connection(ran.kafka, "monitor")
    with pytest.raises(BrokerRefuses, match=r"refuses us: check kafka\.username, the password"):
        await OffsetReader({**known, "sasl_plain_password": f"wrong {CANARY}"}).open()
    stranger = load_settings(
        None,
        {
            "kafka.security_protocol": "SSL",
            "kafka.bootstrap_servers": ran.kafka.broker.certificate_servers,
            "kafka.ca_file": ran.kafka.papers.authorities,
        },
    )
    with pytest.raises(BrokerRefuses, match=r"refuses us.*kafka\.certificate_file"):
        await OffsetReader(connection_of(stranger)).open()
    impostor = stranger.kafka.model_copy(update={"ca_file": Papers(tmp_path).authorities})
    untrusting = connection_of(stranger.model_copy(update={"kafka": impostor}))
    with pytest.raises(BrokerRefuses, match=r"not trusted.*check kafka\.ca_file"):
        await OffsetReader(untrusting).open()
