"""Which roles the local stack runs, and on what made-up hardware: plain data.

Every pool runs the same tiny model for real. A laptop has neither GPU nor NPU, so the nodes that
stand for them are paced by a profile, and each of their results says `emulated`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from deploy.local.tiny_model import MODEL_NAME, PARAMETERS
from runtime.role import RoleSpec
from runtime.settings import Settings
from schemas.control import ModelRecord
from schemas.document import to_json
from schemas.pools import GPU, GPU_TP, ComputeType, Pool

MODEL = MODEL_NAME
"""Not in the registry, so its size is unknown and the overflow rules apply to it."""
SMALL_MODEL = "tiny-docs-small"
"""The same file under a name that the registry knows: a small model by its true size."""


LLAMA = "llama"
"""The backend that answers truly."""


class Hardware(NamedTuple):
    """What a node of the stack runs on.

    Attributes:
        run_ms: ms a request on a device that this machine does not have; None: it is what it is.
        backend: what answers: `llama` truly, at that speed; `emulated` makes the text up too.
    """

    slots: int
    run_ms: int | None = None
    backend: str = LLAMA

    @property
    def in_words(self) -> str:
        """Return it in a few words."""
        device = "this machine's CPU" if self.run_ms is None else f"emulated, {self.run_ms} ms each"
        return f"{self.slots} slots, {device}"


Fleet = Mapping[ComputeType, Hardware]
"""What the node of a pool of this type runs on."""

LAPTOP: Fleet = {
    # The 50 ms of a 13B model on a GPU; so many slots that this machine, not the profile, limits.
    ComputeType.GPU: Hardware(slots=8, run_ms=50),
    ComputeType.NPU: Hardware(slots=8, run_ms=120),
    ComputeType.CPU: Hardware(slots=4),
}
SMALL: Fleet = {
    # So small that a laptop can fill it, and work is seen to overflow.
    **LAPTOP,
    ComputeType.GPU: Hardware(slots=2, run_ms=80),
}
ONE_GPU = Hardware(slots=8, run_ms=250)
FOUR_GPUS = Hardware(slots=2, run_ms=80, backend="emulated")
"""What `gpu` and `gpu-tp` stand for where both are: GPUs with a model so large that a single one
takes longer than realtime work may (200 ms)."""


def hardware(pools: tuple[Pool, ...], fleet: Fleet) -> dict[str, Hardware]:
    """Return what the node of each pool runs on, by pool."""
    found = {pool.name: fleet[pool.compute_type] for pool in pools}
    return found | {GPU: ONE_GPU, GPU_TP: FOUR_GPUS} if GPU_TP in found else found


def roles(settings: Settings, fleet: Fleet, page_port: int = 0) -> tuple[RoleSpec, ...]:
    """Return the stack's roles: control, router, one node a pool.

    `page_port` is where control shows its page if that is free; 0: anywhere.
    """
    of_pool = hardware(settings.pools, fleet)
    shared = _flags(_sharing_cpus(settings, of_pool.values()))
    return (
        RoleSpec("control", ("control", *shared), page_port),
        RoleSpec("router", ("router", *shared)),
        *(
            RoleSpec(f"executor-{pool}", (*_node(pool, device), *shared))
            for pool, device in of_pool.items()
        ),
    )


def registry() -> tuple[ModelRecord, ...]:
    """Return what the stack says of its models."""
    return (ModelRecord(name=SMALL_MODEL, parameters=PARAMETERS),)


def _node(pool: str, device: Hardware) -> tuple[str, ...]:
    slots, run_ms, backend = device
    pace = () if run_ms is None else (f"--profile=fixed:{run_ms}",)
    name = f"--node-id={pool}-1"
    return ("executor", f"--pool={pool}", f"--backend={backend}", name, f"--slots={slots}", *pace)


def _sharing_cpus(settings: Settings, devices: Iterable[Hardware]) -> Settings:
    """Return the settings with which the engines on this machine share its processors."""
    engines = sum(device.backend == LLAMA for device in devices)
    told = {"executors_on_host": max(1, engines), **settings.backends.get(LLAMA, {})}
    return settings.model_copy(update={"backends": {**settings.backends, LLAMA: told}})


def _flags(settings: Settings) -> tuple[str, ...]:
    """Return flags that make exactly these settings, whatever file or variables there are."""
    tree = settings.model_dump(mode="json", exclude={"web"})
    return tuple(f"--set={name}={to_json(value).decode()}" for name, value in tree.items())
