"""Committed offsets that are gone, or as the release before wrote them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.transactions import FencedProducer
from schemas import metadata
from schemas.metadata import decode_finished, decode_router
from schemas.topics import executor_group, router_group
from tests.chaos.autopsy import QUIET
from tests.chaos.stack import Stack
from tests.waiting import until

EMPTY_WITHIN_S = 60.0
"""A group is empty when the sessions of its dead members are over: 6 s."""
WORKS_S = 4.0
VERSION_1, MARK = b"\x01", "."
ROLES = {
    "router": ("router-1", "router-2"),
    "gpu": ("gpu-1", "gpu-2"),
    "cpu": ("cpu-1",),
}


async def groups_deleted(stack: Stack, *deleted: str) -> None:
    """Kill the routers and a pool's nodes, delete their groups with all offsets, start them."""
    await asyncio.sleep(WORKS_S)
    for kind in deleted or tuple(ROLES)[: stack.times(len(ROLES))]:
        for role in ROLES[kind]:
            await stack.kill(role)
        await _delete(stack, _group(stack, kind))
        await stack.restart(*ROLES[kind])


async def of_the_release_before(stack: Stack) -> None:
    """Kill everybody who commits and leave the counts as the release before wrote them."""
    await asyncio.sleep(WORKS_S)
    for kind in tuple(ROLES)[: stack.times(len(ROLES))]:
        for role in ROLES[kind]:
            await stack.kill(role)
        await _rewrite(stack, _group(stack, kind), _old_router if kind == "router" else _old_node)
        await stack.restart(*ROLES[kind])


def _group(stack: Stack, kind: str) -> str:
    prefix = stack.system.settings.prefix
    return router_group(prefix) if kind == "router" else executor_group(prefix, kind)


async def _delete(stack: Stack, group: str) -> None:
    admin = AdminClient(
        {"bootstrap.servers": stack.system.connection["bootstrap_servers"], "log_level": QUIET}
    )

    def deleted() -> bool:
        try:
            admin.delete_consumer_groups([group])[group].result()
        except KafkaException:  # it has members still
            return False
        return True

    await until(lambda: asyncio.to_thread(deleted), EMPTY_WITHIN_S, poll_s=0.2)


async def _rewrite(stack: Stack, group: str, old: Callable[[str], str]) -> None:
    connection = stack.system.connection
    async with OffsetReader(connection) as offsets:
        committed = await offsets.all_committed(group)
    before = {
        tp: Committed(at.offset, old(at.metadata))
        for tp, at in committed.items()
        if at is not None and at.metadata
    }
    writer = FencedProducer(connection, f"{group}-before", group)
    await writer.open()
    await writer.commit(Outputs(), before)
    await writer.close()


def _old_router(text: str) -> str:
    raw = metadata.encode_router(decode_router(text)._replace(work={}))
    return _version_1(raw, leave_out=-1 - 5 * metadata.TALLY_BYTES)


def _old_node(text: str) -> str:
    """Return it without the work: a 0 behind three numbers of varying length."""
    counts = decode_finished(text)._replace(work=0)
    three = bytearray()
    for number in (counts.finished, counts.dead, counts.expired):
        metadata._put_varint(three, number)
    return _version_1(metadata.encode_finished(counts), leave_out=1 + len(three))


def _version_1(text: str, leave_out: int) -> str:
    """Return counts as base85 under version 1, without the byte that says how much work."""
    raw = bytearray(base64.b64decode(text.removeprefix(MARK)))
    assert raw[leave_out] == 0
    del raw[leave_out]
    return base64.b85encode(VERSION_1 + raw[1:]).decode()
