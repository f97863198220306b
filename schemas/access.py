"""Who may do what on the brokers: the least that each role needs, derived from the topics.

Pure data. Knows no broker and no way to tell it; `overspill topics acl` prints it, the manifests of
deploy/ and the tests on a broker with an authorizer are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from schemas.pools import Pool
from schemas.roles import Role
from schemas.topics import (
    TopicNames,
    catalogue,
    changelogs,
    executor_group,
    router_group,
    transactional_ids,
)


class Resource(str, Enum):
    """What access is given to, as Kafka names it."""

    TOPIC = "Topic"
    GROUP = "Group"
    TRANSACTIONAL_ID = "TransactionalId"


class Operation(str, Enum):
    """What may be done, as Kafka names it; READ and WRITE include DESCRIBE."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


class Grant(NamedTuple):
    """One resource and what may be done with it.

    Attributes:
        prefixed: it is every resource whose name begins with `name`.
    """

    resource: Resource
    name: str
    operations: tuple[Operation, ...]
    prefixed: bool = False


R, W, D = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def grants(role: Role, names: TopicNames, pools: tuple[Pool, ...]) -> tuple[Grant, ...]:
    """Return what a role needs.

    Args:
        role: whose.
        names: of the topics.
        pools: all that are configured; of an executor, those that it works for.
    """
    return _MADE[role](names, pools)


def _router(names: TopicNames, pools: tuple[Pool, ...]) -> tuple[Grant, ...]:
    group = router_group(names.prefix)
    return (
        *_topics((names.requests, names.retry, names.control, names.models), R),
        *_topics((names.decisions,), R, W),  # read: what was decided is rebuilt from it
        *_topics((*_of_pools(names, pools), names.results, names.dead_letter), W),
        Grant(Resource.GROUP, group, (R,)),
        _own_transactions(group, names.requests),
    )


def _control(names: TopicNames, pools: tuple[Pool, ...]) -> tuple[Grant, ...]:
    own = f"{names.prefix}control"
    return (
        *_topics((names.nodes, names.lag, names.control), R, W),
        *_topics((names.orders,), R),
        # The oldest unfinished record is read where it stands.
        *_topics((names.retry, *_of_pools(names, pools)), R),
        *_topics((names.requests,), R, W),  # a canary is sent as any request
        *_topics((names.results, names.decisions), R),  # its end is looked for; the page shows both
        *_topics((topic.name for topic in changelogs(names)), R, W, Operation.CREATE),
        *_groups(names, pools, D),
        Grant(Resource.GROUP, own, (R,)),
        Grant(Resource.TRANSACTIONAL_ID, own, (W,)),
    )


def _executor(names: TopicNames, pools: tuple[Pool, ...]) -> tuple[Grant, ...]:
    return (
        *_topics(_of_pools(names, pools), R),
        # Read too: from what nodes wrote, a ledger is found again that the group has lost.
        *_topics((names.results, names.retry, names.dead_letter), R, W),
        *_topics((names.nodes,), W),
        *(Grant(Resource.GROUP, executor_group(names.prefix, pool.name), (R,)) for pool in pools),
        *(
            _own_transactions(executor_group(names.prefix, pool.name), names.pool(pool.name))
            for pool in pools
        ),
    )


def _client(names: TopicNames, _: tuple[Pool, ...]) -> tuple[Grant, ...]:
    return (
        *_topics((names.requests,), W),
        *_topics((names.results, names.dead_letter), R),
        Grant(Resource.GROUP, f"{names.prefix}client", (R,), prefixed=True),
    )


def _monitor(names: TopicNames, pools: tuple[Pool, ...]) -> tuple[Grant, ...]:
    return (
        *_topics(_all(names, pools), R, Operation.DESCRIBE_CONFIGS),
        *_groups(names, pools, D),
    )


def _operator(names: TopicNames, pools: tuple[Pool, ...]) -> tuple[Grant, ...]:
    return (
        *_topics(_all(names, pools), *(done for done in Operation if done is not D)),
        *_groups(names, pools, R),  # accept lost offsets
        *(
            Grant(Resource.TRANSACTIONAL_ID, f"{names.prefix}{own}", (W,))
            for own in ("models", "redrive")
        ),
        _own_transactions(router_group(names.prefix), names.requests),
        *(
            _own_transactions(executor_group(names.prefix, pool.name), names.pool(pool.name))
            for pool in pools
        ),
    )


_MADE: dict[Role, Callable[[TopicNames, tuple[Pool, ...]], tuple[Grant, ...]]] = {
    Role.ROUTER: _router,
    Role.CONTROL: _control,
    Role.EXECUTOR: _executor,
    Role.CLIENT: _client,
    Role.MONITOR: _monitor,
    Role.OPERATOR: _operator,
}


def _topics(names: Iterable[str], *operations: Operation) -> tuple[Grant, ...]:
    return tuple(Grant(Resource.TOPIC, name, operations) for name in names)


def _groups(names: TopicNames, pools: tuple[Pool, ...], operation: Operation) -> tuple[Grant, ...]:
    """Return a right on every group whose offsets hold counts: of routers, of each pool's nodes."""
    groups = (router_group(names.prefix), *(executor_group(names.prefix, p.name) for p in pools))
    return tuple(Grant(Resource.GROUP, group, (operation,)) for group in groups)


def _all(names: TopicNames, pools: tuple[Pool, ...]) -> tuple[str, ...]:
    return tuple(topic.name for topic in (*catalogue(names, pools), *changelogs(names)))


def _of_pools(names: TopicNames, pools: tuple[Pool, ...]) -> tuple[str, ...]:
    return tuple(topic for pool in pools for topic in names.of_pool(pool))


def _own_transactions(group: str, leader: str) -> Grant:
    """Return the right to fence and write for any partition of a group's first topic."""
    return Grant(Resource.TRANSACTIONAL_ID, transactional_ids(group, leader), (W,), prefixed=True)
