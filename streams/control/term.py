"""A term: while one control worker speaks, from taking over until it stops or is fenced.

Pure. What a term begins with comes from `orders` and from the last committed record of `control`,
both read after the predecessor was fenced, so whatever a paused worker still writes elsewhere
changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.control import NODE_TTL_S, Freeze, Snapshot, Steering
from schemas.message import Message
from schemas.orders import THRESHOLD, Order
from streams.control.nodes import Heard
from streams.control.orders import OrderBook
from streams.policy import threshold as article
from streams.policy.controllers import Controller

TICK_S = 1.0
"""How often the threshold is stepped."""
NEAREST_S = 0.05
"""Half of the time between two samples: the one nearest to the second steps the threshold."""


class ThresholdRow(Message):
    """The one row of the threshold table.

    Attributes:
        generation: of the term that wrote it.
        steering: what the controller remembers.
    """

    version: int = 1
    generation: int
    threshold: int
    freeze: Freeze | None = None
    steering: Steering | None = None


@dataclass(frozen=True)
class Term:
    """What a worker took over.

    Attributes:
        row: the threshold table's row to begin with.
        book: the order table's.
        known: nodes that lived by the last snapshot.
        began_s: on this worker's monotonic clock.
    """

    row: ThresholdRow
    book: OrderBook
    known: frozenset[str]
    began_s: float


def take_over(last: Snapshot | None, book: OrderBook, now_s: float) -> Term:
    """Return the term that follows the last committed snapshot; the first one follows none.

    Which threshold it begins with: the value that an order names; else that of the last snapshot,
    held if an order says so; else the start. The table's own row never counts.
    """
    row = ThresholdRow(generation=1, threshold=article.START)
    known: frozenset[str] = frozenset()
    if last is not None:
        row = ThresholdRow(
            generation=last.generation + 1, threshold=last.threshold, steering=last.steering
        )
        known = frozenset(node.id for node in last.nodes if node.live)
    return Term(obey(row, book.standing.get(THRESHOLD)), book, known, now_s)


def obey(row: ThresholdRow, order: Order | None) -> ThresholdRow:
    """Return the row as the order on the threshold has it; without one the threshold moves.

    A freeze forgets what the controller remembers: by its end that is of another time.
    """
    if order is None:
        return row.model_copy(update={"freeze": None})
    freeze = Freeze(who=order.who, why=order.why, at_ms=order.at_ms)
    held = row.threshold if order.threshold is None else order.threshold
    return row.model_copy(update={"freeze": freeze, "threshold": held, "steering": None})


def settled(term: Term, table: frozenset[str], heard: Mapping[str, Heard], now_s: float) -> bool:
    """Return whether this worker knows enough of the nodes to speak of them.

    Until each node known from the last snapshot or the node table has reported anew, or had the
    time to, a node not heard of yet would be published as down.
    """
    if now_s - term.began_s > NODE_TTL_S:
        return True
    unheard = Heard(-1.0)
    return all(heard.get(node, unheard).at_s >= term.began_s for node in term.known | table)


def is_due(due_s: float, probed_s: float, waited_s: float) -> bool:
    """Return whether the threshold is stepped at a sample taken then, so long after the last step.

    It goes by when samples were taken, which is on a beat. When they arrive varies by a beat, and
    steps that went by it came now 0.9, now 1.1 seconds after each other. A clock that was set back
    costs a step, not the time until it is as late again; a sample of long ago, which a worker that
    was paused may still send, steps nothing.
    """
    return due_s - probed_s <= NEAREST_S or waited_s >= 2 * TICK_S


def tick(
    row: ThresholdRow,
    controller: Controller,
    *,
    elapsed_s: float,
    gpu_depth: float,
    cpu_depth: float,
) -> ThresholdRow:
    """Return the threshold's row for the next second; an operator's freeze holds it."""
    if row.freeze is not None:
        return row
    threshold, steering = controller(
        row.threshold, row.steering, elapsed_s=elapsed_s, gpu_depth=gpu_depth, cpu_depth=cpu_depth
    )
    return row.model_copy(update={"threshold": threshold, "steering": steering})
