"""One identity, two processes: of a node or a router, or of the transactional id alone."""

from __future__ import annotations

import asyncio

from runtime.kafka.transactions import FencedProducer, transactional_id
from schemas.topics import executor_group, router_group
from tests.chaos.stack import PARTITIONS, Stack

TWINS = ("gpu-1", "router-1", "cpu-1")
BOTH_RUN_S = 12.0
"""Twice a session: each has taken the other's place several times."""
HIJACKS = 12
APART_S = (0.5, 2.0)


async def same_name(stack: Stack) -> None:
    """Run a second process under the node id and the member id of one that runs; kill either."""
    for name in TWINS[: stack.times(len(TWINS))]:
        twin = f"{name}-twin"
        stack.start(twin, like=name, instance_id=name)
        await asyncio.sleep(BOTH_RUN_S)
        if stack.draw.random() < 0.5:
            await stack.kill(name)
            await stack.restart(name)
        if stack.system.roles[twin].ended is None:
            stack.system.roles[twin].kill()
        await stack.recovers(name)


async def hijacked(stack: Stack) -> None:
    """Open the transactional ids of routers and nodes from outside, so that each is fenced."""
    names, prefix = stack.system.names, stack.system.settings.prefix
    owners = [
        (router_group(prefix), names.requests),
        (executor_group(prefix, "gpu"), names.pool("gpu")),
        (executor_group(prefix, "cpu"), names.pool("cpu")),
    ]
    for _ in range(stack.times(HIJACKS)):
        group, leader = stack.draw.choice(owners)
        identity = transactional_id(group, leader, stack.draw.randrange(PARTITIONS))
        hijacker = FencedProducer(stack.system.connection, identity, group)
        await hijacker.open()
        await hijacker.close()
        await asyncio.sleep(stack.draw.uniform(*APART_S))
    await stack.recovers()
