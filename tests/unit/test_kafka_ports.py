"""Which port the embedded broker gets."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from deploy.local.kafka import ports
from runtime.ports import LOOPBACK, free_port
from schemas.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        yield listener.getsockname()[1]


def unexpected(line: str) -> None:
    raise AssertionError(line)


def test_a_wanted_port_is_taken_if_it_is_free() -> None:
    port = free_port()
    assert ports.choose_port(port, unexpected) == port


def test_a_wanted_port_that_is_busy_is_refused_in_one_line(taken: int) -> None:
    with pytest.raises(LocalKafkaError, match=rf"port {taken} is taken .*--kafka-port"):
        ports.choose_port(taken, unexpected)


def test_without_a_wish_the_default_is_used_if_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "KAFKA_PORT", free_port())
    assert ports.choose_port(None, unexpected) == ports.KAFKA_PORT


def test_without_a_wish_a_busy_default_is_replaced_and_told(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "KAFKA_PORT", taken)
    said: list[str] = []
    port = ports.choose_port(None, said.append)
    assert port != taken
    assert said == [f"Port {taken} is taken; Kafka will listen on {port}"]
