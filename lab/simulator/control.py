"""Control in virtual time: reads counts, hears nodes, steps the threshold, publishes snapshots.

What it does and when is as in `streams.control`; what a snapshot says is in `reading`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lab.simulator.clock import Clock
from lab.simulator.fleet import Delays
from lab.simulator.node import Node
from lab.simulator.reading import Heard, Reading, Snapshots, Told, lives
from schemas.pools import CPU, GPU, Pool
from schemas.value import replace
from streams.control.publisher import REPEAT_S
from streams.control.rates import RATE_TIME_CONSTANT_S, towards, weight_of
from streams.control.term import TICK_S
from streams.policy.controllers import ARTICLE, CONTROLLERS
from streams.policy.threshold import START

_MS_PER_S = 1000


class Second(NamedTuple):
    """The depths at a step of the threshold, and the threshold from then on."""

    at_s: float
    gpu_depth: float
    cpu_depth: float
    threshold: int


class Control:
    """The control plane.

    Attributes:
        course: what it saw and did, second by second.
    """

    def __init__(
        self,
        pools: tuple[Pool, ...],
        nodes: Sequence[Node],
        delays: Delays,
        clock: Clock,
        committed: Callable[[], int],
        requests: int,
    ) -> None:
        """Begin without knowledge; `committed` of all `requests` are decided: then it rests."""
        self.course: list[Second] = []
        self._nodes, self._delays, self._clock = nodes, delays, clock
        self._committed, self._requests = committed, requests
        self._threshold = START
        self._weight = weight_of(delays.probe_every_ms / _MS_PER_S, RATE_TIME_CONSTANT_S)
        self._rates = [0.0 for _ in nodes]
        self._finished = [0 for _ in nodes]
        self._numbers = {node.id: number for number, node in enumerate(nodes)}
        self._results: deque[tuple[float, int]] = deque()
        self._heard = [_heard_of(node, 0.0, 0.0) for node in nodes]
        self._snapshots = Snapshots(pools, nodes)
        self._of_pool = self._snapshots.of_pool
        self._reports: deque[tuple[int, Heard]] = deque()
        self._unread: deque[Reading] = deque()
        self._published: Reading | None = None
        self._next_tick_ms = 0.0

    def begin(self) -> None:
        """Start probing and hearing; the first snapshot is known at once."""
        delays, clock = self._delays, self._clock
        first = self._read(0)
        self._publish(replace(first, known_at_ms=0.0))
        clock.at(0.0, self._probe, None)
        for number in range(len(self._nodes)):
            # Nodes have not started together, so neither do their reports.
            first_ms = delays.report_every_ms * (number + 1) / len(self._nodes)
            clock.at(first_ms, self._report, number)

    def finish(self, node: Node, committed_ms: float) -> None:
        """Note when the result of a request of the node is committed; times do not fall."""
        self._results.append((committed_ms, self._numbers[node.id]))

    def news(self, now_ms: float) -> tuple[Told, float] | None:
        """Return the last snapshot that routers know by now and since when, ms; once each."""
        reading = None
        while self._unread and self._unread[0].known_at_ms <= now_ms:
            reading = self._unread.popleft()
        return None if reading is None else (self._snapshots.of(reading), reading.known_at_ms)

    def _probe(self, _: None, now_ms: float) -> None:
        if self._committed() == self._requests:
            return
        self._clock.at(now_ms + self._delays.probe_every_ms, self._probe, None)
        reading = self._read(int(now_ms))
        if now_ms >= self._next_tick_ms:
            self._next_tick_ms += TICK_S * _MS_PER_S
            reading = self._tick(reading)
        if self._is_news(reading):
            self._publish(reading)

    def _read(self, now_ms: int) -> Reading:
        while self._reports and self._reports[0][1].at_ms < now_ms:
            index, heard = self._reports.popleft()
            self._heard[index] = replace(heard, finished=self._finished[index])
        finished, results = self._finished, self._results
        before = finished.copy()
        while results and results[0][0] <= now_ms:
            finished[results.popleft()[1]] += 1
        seconds, weight = self._delays.probe_every_ms / _MS_PER_S, self._weight
        self._rates = [
            # What was 0 without anything finished stays so.
            towards(rate, (now - then) / seconds, weight) if rate or now != then else 0.0
            for rate, then, now in zip(self._rates, before, finished, strict=True)
        ]
        published_ms = now_ms + self._delays.probe_takes_ms
        return Reading(
            number=1 if self._published is None else self._published.number + 1,
            probed_at_ms=now_ms,
            published_at_ms=published_ms,
            known_at_ms=published_ms + self._delays.snapshot_ms,
            threshold=self._threshold,
            included=self._committed(),
            routed=tuple([node.routed for node in self._nodes]),
            finished=tuple(finished),
            rates=tuple(self._rates),
            heard=tuple(self._heard),
        )

    def _tick(self, reading: Reading) -> Reading:
        gpu = self.depth(GPU, reading)
        cpu = self.depth(CPU, reading) if CPU in self._of_pool else 0.0
        self._threshold, _ = CONTROLLERS[ARTICLE](
            self._threshold, None, elapsed_s=TICK_S, gpu_depth=gpu, cpu_depth=cpu
        )
        self.course.append(Second(reading.probed_at_ms / _MS_PER_S, gpu, cpu, self._threshold))
        return replace(reading, threshold=self._threshold)

    def depth(self, pool: str, reading: Reading) -> float:
        """Return the queue depth of a pool at a reading, as the policy's view has it at age 0."""
        depth = 0.0
        for index in self._of_pool[pool]:
            unfinished = reading.routed[index] - reading.finished[index]
            slots = self._nodes[index].slots.total if lives(reading.heard[index], reading) else 0
            depth += max(0, unfinished - slots)
        return depth

    def _is_news(self, reading: Reading) -> bool:
        """Return whether control publishes it: while counts change, else every half second."""
        last = self._published
        if last is None:
            return True
        waited_ms = reading.probed_at_ms - last.probed_at_ms
        return waited_ms >= REPEAT_S * _MS_PER_S or (
            (last.routed, last.finished, last.included, last.threshold)
            != (reading.routed, reading.finished, reading.included, reading.threshold)
        )

    def _publish(self, reading: Reading) -> None:
        self._published = reading
        self._unread.append(reading)

    def _report(self, index: int, now_ms: float) -> None:
        if self._committed() == self._requests:
            return
        node, delays = self._nodes[index], self._delays
        self._clock.at(now_ms + delays.report_every_ms, self._report, index)
        if node.up:
            self._reports.append((index, _heard_of(node, now_ms, now_ms + delays.report_ms)))


def _heard_of(node: Node, now_ms: float, at_ms: float) -> Heard:
    """Return what a node says now and control hears then."""
    return Heard(
        at_ms,
        node.slots.busy,
        node.latency.read().mean_ms,
        node.queued,
        node.service.read(now_ms),
        0,
    )
