"""A produce request has the bytes that the client library would give it."""

from __future__ import annotations

import subprocess
import sys

from aiokafka.protocol.produce import ProduceRequest_v7
from aiokafka.protocol.struct import Struct
from hypothesis import given
from hypothesis import strategies as st

import runtime.kafka.transactions  # noqa: F401  it makes the change
from runtime.kafka.produce_request import encoded

LOOK = """
import lab.benches.copy_loop, sys, aiokafka.producer.sender
print(aiokafka.producer.sender.BACKOFF_OVERRIDE, *sys.modules)
"""
topics = st.lists(
    st.tuples(
        st.text(max_size=5),
        st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=20)), max_size=3),
    ),
    max_size=3,
)


@given(st.none() | st.text(max_size=5), st.integers(-1, 1), st.integers(0, 2**31 - 1), topics)
def test_it_is_put_together_once_with_the_same_bytes(
    transactional_id: str | None, acks: int, timeout_ms: int, topics: object
) -> None:
    request = ProduceRequest_v7(transactional_id, acks, timeout_ms, topics)
    assert encoded(request) == Struct.encode(request)


def test_transactions_send_it() -> None:
    assert ProduceRequest_v7.encode is encoded


def test_the_baseline_of_the_router_has_the_client_library_as_it_is() -> None:
    seen = subprocess.run(
        [sys.executable, "-c", LOOK], check=True, capture_output=True, text=True
    ).stdout.split()
    assert float(seen[0]) == 0.02
    assert "runtime.kafka.transactions" not in seen
