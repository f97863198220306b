"""Several policies on the same requests and the same fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.simulator.fleet import Fleet
from lab.simulator.measures import Measures, measure
from lab.simulator.run import simulate
from lab.simulator.workload import Asked
from streams.policy import POLICIES, Policy, policy

GPU_ONLY = "gpu-only"


def compare(
    fleet: Fleet,
    requests: Sequence[Asked],
    names: Sequence[str] = tuple(POLICIES),
    progress: Callable[[str], None] | None = None,
) -> dict[str, Measures]:
    """Return what each policy comes to; `gpu-only` too, as all are measured against it."""
    return {
        name: _measured(fleet, requests, policy(name), progress)
        for name in dict.fromkeys((*names, GPU_ONLY))
    }


def _measured(
    fleet: Fleet,
    requests: Sequence[Asked],
    chosen: Policy,
    progress: Callable[[str], None] | None,
) -> Measures:
    tenth = max(1, len(requests) // 10)
    told = 0

    def say(ended: int) -> None:
        nonlocal told
        if progress is not None and ended >= told + tenth:
            told = ended
            progress(f"{chosen.name}: {ended:,} of {len(requests):,} requests")

    return measure(simulate(fleet, requests, chosen, say), fleet, chosen)
