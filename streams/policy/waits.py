"""How long work of each class waits at a node, and which node of a pool it had better go to.

Nodes start urgent work first, then normal, then batch by its deadline. So what waits there already
is ahead of a request only as far as it is of its class or above; nodes report the rest by class.
What came since their report counts as ahead.
"""

from __future__ import annotations

from math import inf, sqrt

from schemas.features import Features
from schemas.request import Priority
from streams.policy.node import Node
from streams.policy.offers import Offer
from streams.policy.placement import best_node

URGENT, NORMAL, DUE, PATIENT = range(4)
"""Classes in the order in which nodes start them; batch is due, or patient without objective."""

HOP_MS = 50.0
"""From the decision to a node's heap and from the run's end to its commit: two transactions."""
WAIT_DOUBT = 3.6
"""Slots come free at random: the wait for n of them spreads by its mean over the root of n, and is
planned with so many times that. One wait in a hundred for a single slot is 4.6 times the mean, ln
100, or longer; one in twenty was, and missed, with 2."""
FREE_ENOUGH = 1.0
"""Estimated free slots from which on work is taken to start at once: a whole one."""
AGED_SHARE = 8 / 7
"""While patient work waits at a node, every eighth start is its."""
ROOM_SHARE = 0.25
"""Patient work takes a free slot only of a node that has so many of its slots free."""
SLOW = 1.5
"""A node this much slower than others is none to wait at."""

_REALTIME, _NORMAL = Priority.REALTIME, Priority.NORMAL


def class_of(features: Features) -> int:
    """Return the class in which nodes will queue the request."""
    if features.priority is _REALTIME:
        return URGENT
    if features.priority is _NORMAL:
        return NORMAL
    return PATIENT if features.slo_ms is None else DUE


def wait_of(node: Node, rank: int, *, express: bool) -> tuple[float, float]:
    """Return how long work of a class waits for a slot of the node, ms: the mean, and its doubt."""
    # Nodes with an express lane keep a slot for urgent work.
    kept = 1 if express and rank != URGENT and node.slots > 1 else 0
    if node.free_slots - kept >= FREE_ENOUGH:
        return 0.0, 0.0
    return _queued(node, rank, kept)


def _queued(node: Node, rank: int, kept: int) -> tuple[float, float]:
    """Return the same where no slot is free but those kept."""
    if node.slots <= kept:
        return node.wait_ms, 0.0
    ahead = node.queued - node.passed[rank]
    ahead = ahead + 1.0 if ahead > 0.0 else 1.0
    mean_ms = ahead / (node.slots - kept) * node.latency_ms
    if rank != PATIENT and node.passed[DUE] > 0:
        mean_ms *= AGED_SHARE
    return mean_ms, WAIT_DOUBT * mean_ms / sqrt(ahead)


def soonest(offer: Offer, rank: int, run_ms: float) -> Node | None:
    """Return the node where a run that takes so long on a usual one ends first.

    Of nodes where it ends at the same time the less loaded one.
    """
    best, least_ms = None, inf
    keeps = 1 if offer.pool.express and rank != URGENT else 0
    for node in offer.nodes:  # of every pool for every request: calls would cost most of it
        kept = keeps if node.slots > 1 else 0
        ends_ms = node.slowness * run_ms
        if node.free_slots - kept < FREE_ENOUGH:
            ends_ms = _queued(node, rank, kept)[0] + ends_ms
        if best is None or ends_ms < least_ms or (ends_ms == least_ms and node.order < best.order):
            best, least_ms = node, ends_ms
    return best


def place_to_rest(offer: Offer, patience_ms: float) -> Node | None:
    """Return the node for patient work: one with room, else one where such work waits already.

    It gathers at as few nodes as its patience allows, so that the others have slots free for work
    with an objective. Spread over all of them, it would take each slot as it comes free.
    """
    express = offer.pool.express
    roomy, most, place = None, (-1, -1.0), None
    for node in offer.nodes:
        free = node.free_slots - express
        if free >= FREE_ENOUGH and free >= ROOM_SHARE * node.slots:
            if roomy is None or node.order < roomy.order:
                roomy = node
        elif roomy is None and node.slowness <= SLOW and node.wait_ms <= patience_ms:
            waits = node.passed[DUE], node.wait_ms
            if waits > most:
                most, place = waits, node
    return roomy or place or best_node(offer)
