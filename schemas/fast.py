"""Making named tuples at the speed of tuples, for the few made for every record.

A named tuple's own constructor is a Python function; this one is C, and takes all fields at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar, cast

AnyTuple = TypeVar("AnyTuple", bound="tuple[Any, ...]")


def quick(kind: type[AnyTuple]) -> Callable[[Iterable[Any]], AnyTuple]:
    """Return a constructor of `kind` that takes one iterable of all its fields, unchecked."""
    return cast("Callable[[Iterable[Any]], AnyTuple]", partial(tuple.__new__, kind))
