"""Small workloads and fleets for the tests of the simulator: everything fixed, no delays."""

from __future__ import annotations

from typing import Any

from lab.simulator.fleet import Delays, Fleet, FleetPool, Slowdown, Spell
from lab.simulator.workload import Asked, asked
from schemas.features import Features
from schemas.pools import ComputeType
from schemas.request import Priority

AT_ONCE = Delays(
    probe_takes_ms=0, snapshot_ms=0, report_ms=0, routing_ms=0, fetch_ms=0, result_ms=0
)
DAY_MS = 24 * 3600 * 1000


def pool(
    name: str, nodes: int = 1, slots: int = 1, run_ms: float = 100, cost: float = 1.0
) -> FleetPool:
    return FleetPool(
        name=name,
        compute_type=ComputeType(name),
        nodes=nodes,
        slots=slots,
        cost_coefficient=cost,
        profile=f"fixed:{run_ms}",  # type: ignore[arg-type]  # read as the file's text is
    )


def fleet(
    *pools: FleetPool,
    delays: Delays = AT_ONCE,
    slowdowns: tuple[Slowdown, ...] = (),
    outages: tuple[Spell, ...] = (),
) -> Fleet:
    return Fleet(pools=pools, delays=delays, slowdowns=slowdowns, outages=outages)


def request(
    number: int,
    at_ms: float,
    priority: Priority = Priority.BATCH,
    slo_ms: float | None = None,
    **features: Any,
) -> Asked:
    features = {"lora": False, "gflops": None, "expires_at_ms": DAY_MS} | features
    return asked(number, at_ms, (100, 10), Features("m", priority, slo_ms, **features))
