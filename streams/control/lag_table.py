"""The lag table as people read it: a line for each pool, node and partition.

Pure: samples, rates and nodes in, lines out. A node's line is the sum of the partitions it owns, a
pool's that of all its partitions; docs/control.md has every formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.control import LagSample, NodeState, PartitionLag
from schemas.work import MFLOP_PER_GFLOP
from streams.control.rates import Pace


@dataclass(frozen=True)
class LagLine:
    """Lag and pace of some pool partitions together.

    Attributes:
        oldest_age_s: since the oldest unfinished record arrived; 0.0 where nothing is unfinished,
            None where it is not known yet.
        arrival_rate, finish_rate: records a second over 10 s; None without a control plane.
        drain_s: unfinished / finish rate; None where nothing is being finished.
        work_gflops: estimated, of what is unfinished.
        work_s: that work / work finished a second; where either is 0, records x mean latency /
            slots; None without a slot.
    """

    routed: int
    finished: int
    unfinished: int
    oldest_age_s: float | None
    arrival_rate: float | None
    finish_rate: float | None
    drain_s: float | None
    work_gflops: float
    work_s: float | None


@dataclass(frozen=True)
class _Capacity:
    """The slots that work on some partitions, and the mean latency of a request in them."""

    slots: int
    latency_ms: float


Rates = Mapping[str, Sequence[Pace]]


class LagTable:
    """Reads lines off the counts.

    Args:
        sample: the counts.
        rates: by pool and partition, as many as the sample's or fewer; None if nobody measures.
        nodes: live and not.
        now_ms: epoch ms, from which ages are told.
    """

    def __init__(
        self, sample: LagSample, rates: Rates | None, nodes: Iterable[NodeState], now_ms: int
    ) -> None:
        self._sample = sample
        self._rates = rates
        self._now_ms = now_ms
        self._live = [node for node in nodes if node.live]

    def pools(self) -> dict[str, LagLine]:
        """Return a line for each pool."""
        return {
            pool: self._line(
                pool, range(len(lags)), [node for node in self._live if node.pool == pool]
            )
            for pool, lags in self._sample.pools.items()
        }

    def nodes(self) -> dict[str, LagLine]:
        """Return a line for each live node, by its id."""
        return {node.id: self._line(node.pool, node.partitions, [node]) for node in self._live}

    def partitions(self) -> dict[str, tuple[LagLine, ...]]:
        """Return a line for each partition, by pool."""
        owners = {(node.pool, number): [node] for node in self._live for number in node.partitions}
        return {
            pool: tuple(
                self._line(pool, [number], owners.get((pool, number), []))
                for number in range(len(lags))
            )
            for pool, lags in self._sample.pools.items()
        }

    def _line(self, pool: str, numbers: Iterable[int], workers: Sequence[NodeState]) -> LagLine:
        lags = self._sample.pools.get(pool, ())
        there = [number for number in numbers if number < len(lags)]
        paces = None
        if self._rates is not None:
            known = self._rates.get(pool, ())
            paces = [known[number] for number in there if number < len(known)]
        return _line([lags[number] for number in there], paces, _capacity(workers), self._now_ms)


def _line(
    lags: Sequence[PartitionLag], paces: Sequence[Pace] | None, capacity: _Capacity, now_ms: int
) -> LagLine:
    unfinished = sum(lag.unfinished for lag in lags)
    mflop = sum(lag.unfinished_mflop for lag in lags)
    finishing = None if paces is None else sum(pace.finishing for pace in paces)
    finishing_mflop = 0.0 if paces is None else sum(pace.finishing_mflop for pace in paces)
    return LagLine(
        routed=sum(lag.routed for lag in lags),
        finished=sum(lag.finished for lag in lags),
        unfinished=unfinished,
        oldest_age_s=_oldest_age_s(lags, now_ms),
        arrival_rate=None if paces is None else round(sum(pace.arriving for pace in paces), 3),
        finish_rate=None if finishing is None else round(finishing, 3),
        drain_s=_seconds(unfinished, finishing or 0.0),
        work_gflops=mflop / MFLOP_PER_GFLOP,
        work_s=(
            _seconds(mflop, finishing_mflop)
            if mflop and finishing_mflop
            else _seconds_in_slots(unfinished, capacity)
        ),
    )


def _oldest_age_s(lags: Sequence[PartitionLag], now_ms: int) -> float | None:
    waiting = [lag for lag in lags if lag.unfinished]
    if not waiting:
        return 0.0
    known = [lag.oldest_at_ms for lag in waiting if lag.oldest_at_ms is not None]
    # Clocks of several hosts meet here: an age below 0 is their difference.
    return max(0, now_ms - min(known)) / 1000 if known else None


def _seconds(left: float, rate: float) -> float | None:
    if not left:
        return 0.0
    return round(left / rate, 3) if rate else None


def _seconds_in_slots(unfinished: int, capacity: _Capacity) -> float | None:
    if not unfinished:
        return 0.0
    if not capacity.slots:
        return None
    return round(unfinished * capacity.latency_ms / 1000 / capacity.slots, 3)


def _capacity(workers: Sequence[NodeState]) -> _Capacity:
    latencies = [node.latency_ms for node in workers]
    mean_ms = sum(latencies) / len(latencies) if latencies else 0.0
    return _Capacity(sum(node.slots for node in workers), mean_ms)
