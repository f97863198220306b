"""The fleet that is simulated: pools with prices and nodes, delays, and what befalls nodes when.

Read from a TOML file; without one it is `fleets/default.toml` beside this file.
"""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from executors.backends.profile import Profile, parse_profile, profile_of
from schemas.errors import UsageError
from schemas.pools import GPU, ComputeType, Pool, PoolName, check_configured

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]  # only there on 3.10

DEFAULT_FLEET = Path(__file__).parent / "fleets" / "default.toml"

_Delay = Annotated[float, Field(ge=0)]


class _Table(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ignored_types=(cached_property,)
    )


class FleetPool(_Table):
    """One pool: its nodes are alike."""

    name: PoolName
    compute_type: ComputeType
    nodes: Annotated[int, Field(ge=1, le=1000)]
    slots: Annotated[int, Field(ge=1, le=1024)]
    """Of each node."""
    cost_coefficient: Annotated[float, Field(gt=0)] | None = None
    """Price of a slot-second, in units of the gpu pool's."""
    price_per_hour: Annotated[float, Field(gt=0)] | None = None
    """Of one node, in any currency; given instead of the coefficient, by every pool."""
    express: bool = False
    profile: Profile

    @field_validator("profile", mode="before")
    @classmethod
    def _profile(cls, stated: Any) -> Profile:
        if isinstance(stated, str):
            profile = parse_profile(stated)
        else:
            profile = profile_of(stated, "profile")
        if profile.fixed_ms == 0:
            raise UsageError("profile: what takes no time has no price; give fixed_ms above 0")
        return profile


class Delays(_Table):
    """How late things are known, ms; unless stated about what docs/control.md measures."""

    probe_every_ms: Annotated[int, Field(ge=1)] = 100
    """How often control reads the counts."""
    probe_takes_ms: _Delay = 10
    snapshot_ms: _Delay = 40
    """From publishing a snapshot to a router's reading it."""
    report_every_ms: Annotated[int, Field(ge=1)] = 500
    report_ms: _Delay = 20
    """From a node's report to control's knowing it."""
    routing_ms: _Delay = 10
    """A router's transaction; what comes meanwhile is the next one."""
    fetch_ms: _Delay = 5
    """From its commit to the node."""
    result_ms: _Delay = 10
    """From the end of a run to the commit that counts it as finished."""


class Spell(_Table):
    """A time in which one node is slow, or away."""

    node: str
    """Named after its pool, from 0: `gpu-0`."""
    from_s: Annotated[float, Field(ge=0)]
    to_s: float


class Slowdown(Spell):
    """Runs that start in it take so many times as long."""

    factor: Annotated[float, Field(gt=0)]


class Fleet(_Table):
    """Pools, delays and the timetable."""

    pools: tuple[FleetPool, ...]
    delays: Delays = Delays()
    slowdowns: tuple[Slowdown, ...] = ()
    outages: tuple[Spell, ...] = ()

    @cached_property
    def priced(self) -> tuple[Pool, ...]:
        """Return the pools as routers are configured with them; raise UsageError."""
        return check_configured(
            tuple(
                Pool(
                    name=pool.name,
                    compute_type=pool.compute_type,
                    cost_coefficient=self._coefficient(pool),
                    express=pool.express,
                )
                for pool in self.pools
            )
        )

    @property
    def prices_per_s(self) -> dict[str, float]:
        """Return what all slots of each pool cost a second, busy or not, in gpu slot-seconds."""
        return {
            pool.name: pool.nodes * pool.slots * priced.cost_coefficient
            for pool, priced in zip(self.pools, self.priced, strict=True)
        }

    def _coefficient(self, pool: FleetPool) -> float:
        given = {one.price_per_hour is None for one in self.pools}
        if given == {True} and pool.cost_coefficient is not None:
            return pool.cost_coefficient
        gpu = next((one for one in self.pools if one.name == GPU), pool)
        if given == {False} and pool.cost_coefficient is None:
            # Both have a price then, and check_configured says what is wrong without a gpu pool.
            return (pool.price_per_hour or 1) / pool.slots / ((gpu.price_per_hour or 1) / gpu.slots)
        raise UsageError(
            "give every pool of the fleet a cost_coefficient, or every pool a price_per_hour"
        )


def read_fleet(file: Path = DEFAULT_FLEET) -> Fleet:
    """Return the fleet that a TOML file states; raise UsageError."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    try:
        fleet = Fleet.model_validate(document)
        check_fleet(fleet)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise UsageError(f"{file}: {where}: {first['msg']}") from None
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    return fleet


def check_fleet(fleet: Fleet) -> None:
    """Raise UsageError if prices, pools or the timetable do not fit together."""
    _ = fleet.priced
    nodes = {f"{pool.name}-{number}" for pool in fleet.pools for number in range(pool.nodes)}
    for spell in (*fleet.slowdowns, *fleet.outages):
        if spell.node not in nodes:
            raise UsageError(
                f"no node is named {spell.node!r}; they are {', '.join(sorted(nodes))}"
            )
        if spell.to_s <= spell.from_s:
            raise UsageError(
                f"what befalls {spell.node} at {spell.from_s:g} s ends before it begins"
            )
    for one in fleet.outages:
        if any(
            other is not one and other.node == one.node and other.from_s <= one.from_s < other.to_s
            for other in fleet.outages
        ):
            raise UsageError(f"outages of {one.node} overlap; write them as one")
