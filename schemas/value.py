"""The base of the values that are made for every record.

A named tuple is made by a Python function and looks each field up by descriptor; at thirty fields a
record that is a third of a router's time. A struct does both in C (docs/adr/0044).
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

__all__ = ["Value", "replace"]


class Value(msgspec.Struct, frozen=True, gc=False):
    """An immutable value: equal and hashed by its fields; it can be part of no cycle."""
