"""The private parts of aiokafka we lean on are there and are used: its patch level is pinned."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.conn import AIOKafkaConnection
from aiokafka.consumer.consumer import AIOKafkaConsumer
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError
from aiokafka.producer import sender
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.producer.producer import AIOKafkaProducer
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.protocol.admin import ApiVersionRequest
from faust.transport.consumer import ThreadDelegateConsumer
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread

from runtime.kafka import transactions
from runtime.process import run_loop
from tests.waiting import until


def test_the_pause_after_concurrent_transactions_is_ours() -> None:
    assert sender.BACKOFF_OVERRIDE == 0.002
    assert transactions.RETRY_BACKOFF_MS > 1000 * sender.BACKOFF_OVERRIDE
    assert "BACKOFF_OVERRIDE" in inspect.getsource(sender.AddPartitionsToTxnHandler)


async def test_a_cluster_that_tells_of_no_broker_is_waited_for_like_one_that_is_away() -> None:
    client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(NodeNotReadyError):
        await client.coordinator_lookup(CoordinationType.GROUP, "g")
    await client.close()


@pytest.mark.parametrize("write", ["send", "_send_sasl_token"])
def test_a_connection_that_was_shut_a_moment_ago_is_an_error_of_the_transport(write: str) -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda _, end: end.close(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        connection = AIOKafkaConnection(host, port)
        _, connection._writer = await asyncio.open_connection(host, port)
        server.close()
        connection._writer.transport.abort()
        await until(lambda: "closed=True" in repr(connection._writer.transport))
        request = b"token" if write == "_send_sasl_token" else ApiVersionRequest()
        with pytest.raises(KafkaConnectionError):
            await getattr(connection, write)(request)

    run_loop(main)


def test_a_producer_can_be_given_up() -> None:
    source = inspect.getsource(AIOKafkaProducer.__init__)
    for attribute in ("_sender", "_message_accumulator", "_txn_manager"):
        assert f"self.{attribute} = " in source
    assert isinstance(inspect.getattr_static(sender.Sender, "sender_task"), property)
    failing = inspect.getsource(MessageAccumulator.fail_all)
    assert "self._batches" in failing
    assert "self._pending_batches" in failing
    assert "self._pending_txn_offsets" in inspect.getsource(TransactionManager.__init__)
    assert "_drain_waiter" in inspect.getsource(MessageBatch.failure)


def test_the_generation_of_an_assignment_is_set_before_the_listener_is_called() -> None:
    assert "self.generation" in inspect.getsource(GroupCoordinator.__init__)
    joined = inspect.getsource(CoordinatorGroupRebalance.perform_group_join)
    assert "self._coordinator.generation = response.generation_id" in joined


def test_a_first_record_is_taken_whatever_its_size() -> None:
    batch = BatchBuilder(1024, 0, is_transactional=True)
    assert batch.append(timestamp=None, key=None, value=b"v" * 10_000) is not None
    assert batch.append(timestamp=None, key=None, value=b"v") is None


def test_how_long_a_fetch_of_fausts_consumer_is_held_can_be_set() -> None:
    assert "self._thread = " in inspect.getsource(ThreadDelegateConsumer.__init__)
    assert "_consumer" in inspect.getsource(AIOKafkaConsumerThread._ensure_consumer)
    assert "self._fetcher = Fetcher(" in inspect.getsource(AIOKafkaConsumer.start)
    asked = inspect.getsource(Fetcher._get_actions_per_node)
    assert "self._fetch_max_wait_ms," in asked
    assert "self._fetch_min_bytes," in asked


def test_what_fausts_consumer_fetched_passes_by_where_we_look_at_it() -> None:
    assert "await self._getmany(" in inspect.getsource(ThreadDelegateConsumer._wait_next_records)
    drained = inspect.getsource(ThreadDelegateConsumer._drain_messages)
    assert "await self._add_gap(tp, r_offset + 1, offset)" in drained
