"""The threshold's controllers by name: what control may step the threshold with.

A controller is a pure function; what it remembers between two steps travels with the threshold, so
that whoever steps next goes on where the last one was.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from schemas.control import Steering
from streams.policy import stable, threshold

ARTICLE = "article"
STABLE = "stable"


class Controller(Protocol):
    """Steps the threshold, once a second."""

    def __call__(
        self,
        threshold: int,
        steering: Steering | None,
        /,
        *,
        elapsed_s: float,
        gpu_depth: float,
        cpu_depth: float,
    ) -> tuple[int, Steering | None]:
        """Return the threshold from now on, and what to remember for the next step."""


def _article(
    before: int,
    _: Steering | None,
    /,
    *,
    elapsed_s: float,
    gpu_depth: float,
    cpu_depth: float,
) -> tuple[int, None]:
    del elapsed_s  # it moves by one a step, however long that took
    return threshold.step(before, gpu_depth=gpu_depth, cpu_depth=cpu_depth), None


CONTROLLERS: Mapping[str, Controller] = MappingProxyType({ARTICLE: _article, STABLE: stable.step})
