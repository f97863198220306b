"""Which roles the local stack runs, and on what made-up hardware: plain data.

Every pool runs the same tiny model for real. A laptop has neither GPU nor NPU, so the nodes that
stand for them are paced by a profile, and each of their results says `emulated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from deploy.local.role import RoleSpec
from deploy.local.tiny_model import MODEL_NAME, PARAMETERS
from runtime.settings import Settings
from schemas.control import ModelRecord
from schemas.pools import ComputeType, Pool

MODEL = MODEL_NAME
"""Not in the registry, so its size is unknown and the overflow rules apply to it."""
SMALL_MODEL = "tiny-docs-small"
"""The same file under a name that the registry knows: a small model by its true size."""


class Hardware(NamedTuple):
    """What a node of the stack runs on.

    Attributes:
        run_ms: ms a request on a device that this machine does not have; None: it is what it is.
    """

    slots: int
    run_ms: int | None = None

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


def roles(settings: Settings, fleet: Fleet) -> tuple[RoleSpec, ...]:
    """Return the stack's roles: control, router, one node a pool."""
    shared = _flags(settings)
    return (
        RoleSpec("control", ("control", *shared)),
        RoleSpec("router", ("router", *shared)),
        *(
            RoleSpec(f"executor-{pool.name}", (*_node(pool, fleet), *shared))
            for pool in settings.pools
        ),
    )


def registry() -> tuple[ModelRecord, ...]:
    """Return what the stack says of its models."""
    return (ModelRecord(name=SMALL_MODEL, parameters=PARAMETERS),)


def _node(pool: Pool, fleet: Fleet) -> tuple[str, ...]:
    slots, run_ms = fleet[pool.compute_type]
    pace = () if run_ms is None else (f"--profile=fixed:{run_ms}",)
    name = f"--node-id={pool.name}-1"
    return ("executor", f"--pool={pool.name}", "--backend=llama", name, f"--slots={slots}", *pace)


def _flags(settings: Settings) -> tuple[str, ...]:
    """Return flags that make exactly these settings, whatever file or variables there are."""
    tree = settings.model_dump(mode="json", exclude={"web"})
    return tuple(f"--set={name}={orjson.dumps(value).decode()}" for name, value in tree.items())
