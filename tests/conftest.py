"""What every test may ask for: one real Kafka for the whole run."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deploy.local.kafka import Broker, start_broker
from runtime.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED = "OVERSPILL_TEST_BOOTSTRAP"
BROKER = pytest.StashKey[Broker]()


@dataclass(frozen=True)
class RunningKafka:
    """A broker that answers; tests share it, so each uses topics and groups of its own names."""

    bootstrap_servers: str


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Undo what a command run in this process does to logging: its stderr ends with the test."""
    loggers = [logging.getLogger(name) for name in (None, "aiokafka", "faust", "mode")]
    handlers, levels = loggers[0].handlers[:], [logger.level for logger in loggers]
    yield
    loggers[0].handlers = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(scope="session")
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningKafka]:
    """Start one embedded broker for the run, at the first test that asks (marker `kafka`).

    OVERSPILL_TEST_BOOTSTRAP=host:port takes a broker that already runs instead: several developers
    or runs may share it, and each run saves the 4 s of a start.
    """
    shared = os.environ.get(SHARED) or getattr(request.config, "workerinput", {}).get(SHARED)
    if shared:
        yield RunningKafka(shared)
        return
    with _broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield RunningKafka(broker.bootstrap_servers)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let the parallel workers of `pytest -n` share one broker, which ends with the run."""
    config = node.config
    if os.environ.get(SHARED):
        return
    if BROKER not in config.stash:
        running = contextlib.ExitStack()
        config.add_cleanup(running.close)
        folder = running.enter_context(tempfile.TemporaryDirectory(prefix="overspill-test-"))
        config.stash[BROKER] = running.enter_context(_broker(Path(folder)))
    node.workerinput[SHARED] = config.stash[BROKER].bootstrap_servers


def _broker(data_dir: Path) -> AbstractContextManager[Broker]:
    # A free port, not 9092: the run must not meet a broker that somebody works with.
    return start_broker(port=free_port(), data_dir=data_dir, progress=print)
