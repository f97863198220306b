"""What every test may ask for: one real Kafka for the whole run."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from deploy.local.kafka import start_broker
from deploy.local.kafka.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator


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
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKafka]:
    """Start one embedded broker for the run, at the first test that asks (marker `kafka`).

    OVERSPILL_TEST_BOOTSTRAP=host:port takes a broker that already runs instead: several developers
    or runs may share it, and each run saves the 4 s of a start.
    """
    shared = os.environ.get("OVERSPILL_TEST_BOOTSTRAP")
    if shared:
        yield RunningKafka(shared)
        return
    # A free port, not 9092: the run must not meet a broker that somebody works with.
    with start_broker(
        port=free_port(), data_dir=tmp_path_factory.mktemp("kafka"), progress=print
    ) as broker:
        yield RunningKafka(broker.bootstrap_servers)
