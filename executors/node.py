"""A node: one process of one pool, from its backend's self-test to its farewell.

Wires host, lanes, dispatcher and reporter together and knows what state the node is in. It decides
nothing about requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from aiokafka.structs import TopicPartition

from executors.backends.base import Backend, SelfTest
from executors.backends.registry import make_backend
from executors.breaker import Breaker
from executors.dispatcher import Dispatcher
from executors.health import HealthWatch
from executors.lane import PoolLane
from executors.latency import LatencyWindow
from executors.load import follow_load
from executors.meter import Meter
from executors.outcome import Outcome
from executors.recovery import last_ledger
from executors.reporter import Reporter
from executors.settings import NodeOptions
from executors.story import story_of
from runtime.kafka.connection import Connection
from runtime.kafka.lanes import LaneHost
from runtime.kafka.meter import HostMeter
from runtime.kafka.offsets import Committed
from runtime.kafka.outage import Outage
from runtime.kafka.topics import partition_counts
from runtime.kafka.widths import Widths
from runtime.metrics import Metrics
from runtime.process import run_role
from runtime.settings import Settings
from runtime.tracing import open_tracing
from schemas.capability import Capability
from schemas.control import NodeCondition, NodeReport
from schemas.errors import BackendUnavailable, BrokerUnreachable
from schemas.topics import executor_group

log = logging.getLogger(__name__)

DRAIN_SHARE = 0.8
"""Of the time to stop: the rest is for leaving the group and closing the backend."""
BROKER_RETRY_S = 1.0


class Node:
    """One node; the role that `runtime.process.run_role` runs."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        options: NodeOptions,
        backend: Backend,
        metrics: Metrics,
    ) -> None:
        """Prepare; raise UsageError if the pool is not configured, or the tracing cannot be had."""
        self._pool = settings.pool(options.pool)
        self._names = settings.topics
        self._connection = connection
        self._instance_id = settings.kafka.instance_id
        self._options = options
        self._backend = backend
        self._meter = Meter(metrics, self._pool.name, settings.metrics)
        self._host_meter = HostMeter(metrics)
        self._tracing = open_tracing(settings.tracing, metrics.role, metrics.version)
        self._latency = LatencyWindow(0.0)
        self._proven: tuple[Capability, ...] = ()
        self._breaker = Breaker()
        self._dispatcher: Dispatcher | None = None
        self._host: LaneHost | None = None
        self._widths = Widths(connection, {})
        self._state, self._reason = NodeCondition.STARTING, ""
        self._reporter = Reporter(connection, self._names.nodes, options.node_id, self.report)
        self._work: asyncio.Task[None] | None = None

    @property
    def unready(self) -> str | None:
        """Return why it cannot work now; None when it can."""
        condition, reason = self._condition
        if self._host is None or condition is not NodeCondition.READY:
            return f"{condition.value} {reason}".strip()
        return self._host.unready

    @property
    def _condition(self) -> tuple[NodeCondition, str]:
        """Return what the node can do now, and why not more."""
        if self._state is NodeCondition.READY and (why := self._breaker.unhealthy) is not None:
            return NodeCondition.UNHEALTHY, why
        return self._state, self._reason

    async def run(self) -> None:
        """Work until stopped.

        Raises:
            BackendUnavailable: the backend does not start or fails its self-test.
            TopicMismatch: a topic is missing.
        """
        self._work = asyncio.ensure_future(self._serve())
        await asyncio.wait({self._work})
        if not self._work.cancelled():
            self._work.result()

    async def stop(self, within_s: float) -> None:
        """Finish what is in slots within the bound, commit, leave the group and the books."""
        self._state = NodeCondition.DRAINING
        self._reporter.changed()
        if self._dispatcher is None or self._host is None:
            if self._work is not None:
                self._work.cancel()
            return
        self._dispatcher.stop_starting()
        await self._host.stop(within_s * DRAIN_SHARE)

    def report(self) -> NodeReport:
        """Return what this node says of itself now."""
        host, info, latency = self._host, self._backend.info, self._latency.read()
        assigned = host.assigned if host else frozenset()
        if host is not None:
            self._host_meter.show(host)
        now_ms, dispatcher = time.time() * 1000, self._dispatcher
        condition, reason = self._condition
        return NodeReport(
            node=self._options.node_id,
            pool=self._pool.name,
            compute_type=self._pool.compute_type,
            generation=host.generation if host else -1,
            state=condition,
            reason=reason,
            slots=self._options.slots,
            busy=dispatcher.busy if dispatcher else 0,
            partitions=tuple(sorted(assigned)),
            blocked=tuple(sorted(assigned - set(host.open_lanes))) if host else (),
            models=info.models,
            adapters=info.adapters,
            backend=info.kind,
            engine=info.engine,
            device=info.device,
            emulated=info.emulated,
            latency_mean_ms=latency.mean_ms,
            latency_p50_ms=latency.p50_ms,
            latency_p95_ms=latency.p95_ms,
            latency_p99_ms=latency.p99_ms,
            completed=self._latency.completed,
            queued=dispatcher.waiting if dispatcher else (0, 0, 0),
            service=dispatcher.service.read(now_ms) if dispatcher else (),
            capabilities=self._proven,
            totals=self._meter.totals(),
            reported_at_ms=int(now_ms),
        )

    async def _serve(self) -> None:
        self._widths = Widths(self._connection, await self._topics())
        await self._reporter.open()
        background = [
            asyncio.ensure_future(endless)
            for endless in (self._reporter.run(), self._widths.follow())
        ]
        try:
            await self._prove_backend()
            background.append(asyncio.ensure_future(follow_load(self._backend, self._meter)))
            await self._work_as_member(background)
            await self._reporter.leave()
        except asyncio.CancelledError:
            await self._reporter.leave()
            raise
        except BackendUnavailable as error:
            self._state, self._reason = NodeCondition.REFUSED, str(error)
            await self._reporter.send()
            raise
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._reporter.close()
            await self._backend.close()
            if self._tracing is not None:
                await asyncio.to_thread(self._tracing.close)

    async def _topics(self) -> dict[str, int]:
        """Return the partitions of the topics written to, once a broker answers."""
        names = (self._names.results, self._names.retry, self._names.dead_letter)
        outage = Outage(log, "asking for the topics")
        while True:
            try:
                found = await partition_counts(
                    self._connection, (*names, self._names.nodes, *self._names.of_pool(self._pool))
                )
            except BrokerUnreachable as error:
                outage.failed(error)
                self._reason = "broker-away"
                await asyncio.sleep(BROKER_RETRY_S)
            else:
                outage.over()
                return found

    async def _prove_backend(self) -> None:
        """Start the backend and test it: a node joins only with one that works."""
        self._reason = "loading"
        await self._backend.start()
        self._latency = LatencyWindow((await self._prove()).took_ms)
        info = self._backend.info
        log.info("node %s: %s on %s passed its self-test", self._options.node_id, info.engine,
                 info.device)  # fmt: skip
        self._reason = ""

    async def _prove(self) -> SelfTest:
        """Run the golden inputs; reports tell what they prove."""
        tested = await self._backend.self_test()
        self._proven = tested.proven
        return tested

    async def _work_as_member(self, background: Sequence[asyncio.Task[None]]) -> None:
        """Run what the group assigns until stopped; raise what ends the background."""
        self._dispatcher = dispatcher = Dispatcher(
            self._backend,
            self._latency,
            self._breaker,
            self._meter,
            node=self._options.node_id,
            pool=self._pool,
            slots=self._options.slots,
        )
        names = self._names
        leader, *followers = names.of_pool(self._pool)

        def lane(_: int) -> PoolLane:
            return PoolLane(
                dispatcher,
                self._meter,
                prefix=names.prefix,
                express_topic=names.express(self._pool.name),
                partitions=self._widths.__getitem__,
                recover=self._recover,
                tell=self._tell if self._tracing else None,
            )

        self._host = LaneHost(
            self._connection,
            group=executor_group(names.prefix, self._pool.name),
            leader=leader,
            followers=followers,
            lane=lane,
            on_change=self._reporter.changed,
            instance_id=self._instance_id,
        )
        self._state = NodeCondition.READY
        serving = asyncio.ensure_future(self._host.run())
        watch = HealthWatch(
            self._backend,
            self._breaker,
            dispatcher,
            self._latency,
            self._prove,
            self._reporter.changed,
        )
        watching = asyncio.ensure_future(watch.run())
        try:
            await asyncio.wait(
                {serving, watching, *background}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in (watching, *background):
                if task.done():
                    task.result()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            if not serving.done():
                await self._host.stop(0.0)
            dispatcher.stop_starting()
        await serving

    def _tell(self, outcome: Outcome, committed_ms: float) -> None:
        story = story_of(outcome, self._options.node_id, self._pool.name, committed_ms)
        if self._tracing is not None and story is not None:
            self._tracing.tell(story)

    async def _recover(self, lost: TopicPartition) -> Committed | None:
        await self._widths.look()  # a ledger may stand in a partition that was added just now
        return await last_ledger(self._connection, self._names, self._widths, lost)


async def run_node(
    settings: Settings, connection: Connection, options: NodeOptions, metrics: Metrics
) -> None:
    """Run a node as this process until it is told to stop.

    Raises:
        UsageError: pool, backend or profile are not as they must be.
        BackendUnavailable: the backend does not start or fails its self-test.
    """
    node = Node(settings, connection, options, make_backend(options), metrics)
    await run_role(node, settings, metrics)
