"""The `decisions` record: one a routing transaction, enough to rebuild a router and to replay it.

It carries the counts after the transaction (so lost offsets can be rebuilt), the identity of each
request (so the duplicate window can be), its conversation and node (so bindings can be), and what
the policy read (so the decision can be made again, bit for bit). Rows are JSON arrays with a fixed
order: a newer writer appends, a reader ignores what it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from schemas.errors import FormatError
from schemas.features import Features
from schemas.metadata import RouterCounts, decode_router, encode_router
from schemas.pools import ComputeType, Pool
from schemas.value import Value

DECISIONS_VERSION = 1
DUPLICATE = "duplicate"
"""The outcome of a repeat: a record whose request has an end, or will have one, already."""
DEAD = "dead:"
"""What the outcome of a dead letter begins with; its category follows."""


class DecisionRow(Value, frozen=True, array_like=True):
    """What became of one record of `requests` or `retry`.

    Attributes:
        source: 0 for `requests`, 1 for `retry`.
        outcome: a Reason, or DUPLICATE, or `dead:<category>`.
        digest: of the record's value, so that the same id with other bytes is seen.
        node, partition: None and -1 where nothing was routed.
        features: what the policy read of it, None where it read nothing.
        released: why a bound conversation was let go, "" where none was.
        bound_to: (pool, node) that held its conversation when it was decided, None without.
    """

    source: int
    offset: int
    id: str
    digest: int
    attempt: int
    redrive: int
    outcome: str
    pool: str | None = None
    express: bool = False
    node: str | None = None
    partition: int = -1
    features: Features | None = None
    released: str = ""
    bound_to: tuple[str, str] | None = None


class ViewInputs(NamedTuple):
    """What the view was made from when the batch was decided.

    Attributes:
        snapshot: (generation, number) of the snapshot used, None when blind without one.
        age_ms: its age on the router's monotonic clock.
        own: routed by this router beyond the snapshot: (pool, partition, records).
        body: the snapshot's bytes, once per router and snapshot.
        models: revision of the model registry.
        widths: partitions of each pool: where no node is known, a hash chooses among them.
        pools: as configured, prices and all; empty in records of a release that did not say.
        registry: digest of the registered models (`schemas.registry`).
        registered: these models, packed: once per router and registry, and from time to time.
    """

    snapshot: tuple[int, int] | None
    age_ms: float
    own: tuple[tuple[str, int, int], ...] = ()
    body: bytes | None = None
    models: int = 0
    widths: tuple[tuple[str, int], ...] = ()
    pools: tuple[Pool, ...] = ()
    registry: int = 0
    registered: bytes | None = None


class DecisionsRecord(NamedTuple):
    """All decisions of one transaction.

    Attributes:
        router: id of the router process; sequence: its batches in the order decided.
        partition: i of `requests` i and `retry` i.
        first, next: per source: the first offset taken and the committed one after; -1 untouched.
        now_ms: the time the policy was given, epoch ms.
        bound: conversations with pool and node, as they are after the rows: a few in each record.
    """

    router: str
    sequence: int
    partition: int
    first: tuple[int, int]
    next: tuple[int, int]
    counts: tuple[RouterCounts | None, RouterCounts | None]
    policy: str
    mode: str
    threshold: int
    now_ms: int
    view: ViewInputs
    rows: Sequence[DecisionRow] = ()
    bound: Sequence[tuple[str, str, str]] = ()


def encode_decisions(record: DecisionsRecord) -> bytes:
    """Return the record as JSON.

    All of its numbers are finite: a request's by its fields' bounds, pools' by their type.
    """
    view = record.view
    return msgspec.json.encode(  # noqa: TID251  a check would cost a router too much
        {
            "v": DECISIONS_VERSION,
            "router": record.router,
            "seq": record.sequence,
            "partition": record.partition,
            "first": record.first,
            "next": record.next,
            "counts": [
                None if counts is None else encode_router(counts) for counts in record.counts
            ],
            "policy": record.policy,
            "mode": record.mode,
            "threshold": record.threshold,
            "now": record.now_ms,
            "snapshot": view.snapshot,
            "age": view.age_ms,
            "own": view.own,
            "models": view.models,
            "widths": view.widths,
            "pools": [
                (pool.name, pool.compute_type.value, pool.cost_coefficient, pool.express)
                for pool in view.pools
            ],
            "registry": view.registry,
            "registered": view.registered,
            "view": None if view.body is None else msgspec.Raw(view.body),
            "rows": record.rows,
            "bound": record.bound,
        }
    )


def decode_decisions(raw: bytes) -> DecisionsRecord:
    """Return the record in the bytes; raise FormatError."""
    try:
        document: dict[str, Any] = msgspec.json.decode(raw)
        if document["v"] > DECISIONS_VERSION:
            raise FormatError(
                f"a decisions record has version {document['v']}, this process reads "
                f"{DECISIONS_VERSION}: upgrade it"
            )
        first, following = document["first"], document["next"]
        counts = [None if text is None else decode_router(text) for text in document["counts"]]
        snapshot, body = document["snapshot"], document["view"]
        return DecisionsRecord(
            document["router"],
            document["seq"],
            document["partition"],
            (first[0], first[1]),
            (following[0], following[1]),
            (counts[0], counts[1]),
            document["policy"],
            document["mode"],
            document["threshold"],
            document["now"],
            ViewInputs(
                None if snapshot is None else (snapshot[0], snapshot[1]),
                document["age"],
                tuple((pool, partition, records) for pool, partition, records in document["own"]),
                None if body is None else msgspec.json.encode(body),  # noqa: TID251  it was JSON
                document.get("models", 0),
                tuple((pool, width) for pool, width in document.get("widths", ())),
                tuple(_pool(*stated) for stated in document.get("pools", ())),
                document.get("registry", 0),
                msgspec.convert(document.get("registered"), bytes | None),
            ),
            msgspec.convert(document["rows"], tuple[DecisionRow, ...]),
            msgspec.convert(document.get("bound", ()), tuple[tuple[str, str, str], ...]),
        )
    except (msgspec.MsgspecError, KeyError, IndexError, TypeError, ValueError) as error:
        raise FormatError("a decisions record does not decode") from error


class Decided(Value, frozen=True):
    """What a decisions record tells of outcomes alone, read without all that a replay needs."""

    router: str
    mode: str
    rows: tuple[DecisionRow, ...]


def decode_outcomes(raw: bytes) -> Decided:
    """Return the outcomes in the bytes of a decisions record; raise FormatError."""
    try:
        return msgspec.json.decode(raw, type=Decided)
    except msgspec.MsgspecError as error:
        raise FormatError("a decisions record does not decode") from error


@lru_cache(maxsize=64)
def _pool(name: str, compute_type: str, cost_coefficient: float, express: bool, *_: object) -> Pool:
    return Pool(
        name=name,
        compute_type=ComputeType(compute_type),
        cost_coefficient=cost_coefficient,
        express=express,
    )
