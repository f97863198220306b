"""The faults: each is one function that hurts a stack and lets it heal; its name is its row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.chaos.faults import crash, kill, pause
from tests.chaos.stack import COMMANDS, Stack


class Fault(NamedTuple):
    """One row of the table.

    Attributes:
        inflict: does it, under load, and returns when everything runs again.
        starts: roles that the fault starts itself.
    """

    name: str
    inflict: Callable[[Stack], Awaitable[None]]
    starts: tuple[str, ...] = ()

    @property
    def standing(self) -> tuple[str, ...]:
        """Return the roles that run before the fault is made."""
        return tuple(name for name in COMMANDS if name not in self.starts)


FAULTS = (
    Fault("crash points", crash.every_point, crash.STARTS),
    Fault("kill -9 at random", kill.at_random),
    Fault("pause beyond the session", pause.beyond_the_session),
)
