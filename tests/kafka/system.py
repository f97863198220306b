"""A whole system under a prefix of its own: every role a process, as a deployment runs them."""

from __future__ import annotations

import asyncio
import itertools
import os
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import orjson
from aiokafka import AIOKafkaProducer

from runtime.kafka.topics import create_topics
from runtime.role import RoleProcess, RoleSpec
from runtime.settings import KafkaSettings, Settings
from schemas.errors import BrokerUnreachable
from schemas.topics import catalogue
from streams.status import SystemStatus, read_status
from tests.waiting import in_time, until

READY_WITHIN_S = 60
"""A process is up in 2 s on an idle machine; Faust needs 4."""
ASK_WITHIN_S = 2.0

OWN_NAME = "its own name"

_numbers = itertools.count()


class System:
    """Topics, and the processes that work on them.

    Attributes:
        roles: every process ever started, by its name.
        sent: requests that were handed to the producer.
    """

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self.settings = Settings(
            prefix=f"s{os.getpid()}-{next(_numbers)}.",
            kafka=KafkaSettings(bootstrap_servers=bootstrap_servers),
        )
        self.names = self.settings.topics
        self.connection = {"bootstrap_servers": bootstrap_servers}
        self.roles: dict[str, RoleProcess] = {}
        self.sent = 0
        self._folder = folder

    async def create(self, partitions: int) -> None:
        """Create the topics."""
        await create_topics(self.connection, catalogue(self.names, self.settings.pools, partitions))

    def start(self, name: str, *command: str, instance_id: str | None = OWN_NAME) -> RoleProcess:
        """Run a role; under a name that ran before, in its place.

        Its group knows it by its name, unless by another; None: as a member that comes and goes.
        """
        if name not in self.roles:
            member = name if instance_id is OWN_NAME else instance_id
            shared = (
                f"--set=prefix={self.settings.prefix}",
                f"--bootstrap-servers={self.settings.kafka.bootstrap_servers}",
                *((f"--set=kafka.instance_id={member}",) if member else ()),
            )
            spec = RoleSpec(name, (*command, *shared))
            self.roles[name] = RoleProcess(spec, self._folder / f"{name}.log")
        self.roles[name].start()
        return self.roles[name]

    def start_node(self, name: str, *, slots: int, run_ms: int) -> RoleProcess:
        """Run an emulated node; its pool is its name up to the last dash."""
        pool = name.rpartition("-")[0]
        return self.start(
            name, "executor", f"--pool={pool}", "--backend=emulated", f"--node-id={name}",
            f"--slots={slots}", f"--profile=fixed:{run_ms}",
        )  # fmt: skip

    @property
    def running(self) -> list[RoleProcess]:
        """Return the processes that run now."""
        return [role for role in self.roles.values() if role.ended is None]

    async def until_ready(self, *roles: RoleProcess) -> None:
        """Wait until these answer that they can do their work."""

        async def ready() -> bool:
            ended = [f"{role.name}: {role.ended}, {role.last_line}" for role in roles if role.ended]
            assert not ended
            return all([await get(f"{role.url}/readyz") == "ok\n" for role in roles])

        await until(ready, in_time(READY_WITHIN_S), poll_s=0.05)

    async def send(self, names: Iterable[str], *, every_s: float = 0.0, **fields: object) -> None:
        """Produce a request of each name under its name as key, acknowledged when this returns."""
        async with self.producer() as producer:
            sent = []
            for name in names:
                self.sent += 1
                document = {"id": name, "model_name": "m", "payload": {"prompt": "x"}, **fields}
                value, key = orjson.dumps(document), name.encode()
                sent.append(await producer.send(self.names.requests, value, key=key))
                if every_s:
                    await asyncio.sleep(every_s)
            await asyncio.gather(*sent)

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[AIOKafkaProducer]:
        """Produce what a test makes up."""
        producer = AIOKafkaProducer(**self.connection)
        await producer.start()
        try:
            yield producer
        finally:
            await producer.stop()

    async def status(self) -> SystemStatus:
        """Return what `overspill status` would print now."""
        return await read_status(self.settings, self.connection)

    async def until_status(
        self, holds: Callable[[SystemStatus], bool], within_s: float = 60
    ) -> SystemStatus:
        """Return the first status that holds."""
        found: list[SystemStatus] = []

        async def one_does() -> bool:
            try:
                found.append(await self.status())
            except BrokerUnreachable:  # a broker without time is asked again
                return False
            return holds(found[-1])

        try:
            await until(one_does, within_s)
        except AssertionError:
            print("last status:", found[-1:])  # noqa: T201  pytest shows it beside the failure
            raise
        return found[-1]


@contextmanager
def ended_afterwards(system: System) -> Iterator[System]:
    """Kill whatever still runs at the end, and show the logs beside a failure."""
    try:
        yield system
    finally:
        for role in system.running:
            role.kill()
        for role in system.roles.values():
            print(f"--- {role.name}\n{role.log_file.read_text()}")  # noqa: T201  pytest's to show


async def get(url: str) -> str:
    """Return what is there; empty where nothing answers, or not with 200."""
    return await asyncio.to_thread(_get, url)


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=ASK_WITHIN_S) as answer:  # noqa: S310  loopback
            body: bytes = answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        return ""
    except OSError:
        return ""
    return body.decode()
