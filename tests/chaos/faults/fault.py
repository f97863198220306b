"""What a fault is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import NamedTuple

from tests.chaos.stack import COMMANDS, Stack


class Needs(Enum):
    """What a fault hurts beside the roles."""

    NOTHING = "nothing"
    OWN_BROKER = "own broker"
    PROXY = "proxy"
    SMALL_DISK = "small disk"


class Fault(NamedTuple):
    """One row of the table.

    Attributes:
        inflict: does it, under load, and returns when everything runs again.
        recovers_s: until all that was hurt is ready once the fault is over, at most; on a machine
            with time to spare.
        starts: roles that the fault starts itself.
    """

    name: str
    inflict: Callable[[Stack], Awaitable[None]]
    recovers_s: float
    needs: Needs = Needs.NOTHING
    starts: tuple[str, ...] = ()

    @property
    def standing(self) -> tuple[str, ...]:
        """Return the roles that run before the fault is made."""
        return tuple(name for name in COMMANDS if name not in self.starts)
