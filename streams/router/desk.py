"""What a lane decides with: its memory, the policy, the view, and where outputs go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from schemas.features import Features
from schemas.pools import Pool
from schemas.topics import TopicNames
from streams.policy import Decision, View
from streams.router.bindings import Bindings
from streams.router.window import DuplicateWindow


class Decider(Protocol):
    """A policy, or one that is watched by another (`router.shadow`)."""

    @property
    def name(self) -> str:
        """Return the name of the policy that decides."""

    def decide(self, features: Features, view: View, now_ms: int) -> Decision:
        """Return where a request goes."""


@dataclass(frozen=True)
class Desk:
    """What a lane decides with.

    Attributes:
        partition: number of the lane.
        widths: partitions by full topic name, of `results` and `dead-letter` at least.
        pool_topics: by pool and express: the topic's full name, and its name in metadata.
    """

    partition: int
    names: TopicNames
    policy: Decider
    view: View
    window: DuplicateWindow
    bindings: Bindings
    widths: Mapping[str, int]
    pool_topics: Mapping[tuple[str, bool], tuple[str, str]]


def pool_topic_names(
    names: TopicNames, pools: tuple[Pool, ...]
) -> dict[tuple[str, bool], tuple[str, str]]:
    """Return what `Desk.pool_topics` holds: looked up a thousand times for each time it is made."""
    bare = TopicNames("")
    found = {(pool.name, False): (names.pool(pool.name), bare.pool(pool.name)) for pool in pools}
    for pool in pools:
        if pool.express:
            found[pool.name, True] = names.express(pool.name), bare.express(pool.name)
    return found
