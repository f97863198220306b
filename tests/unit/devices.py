"""Devices that a probe meets, each a function that it runs; imports little, to start fast."""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def dies(_: dict[str, Any]) -> dict[str, Any]:
    """Abort, as a driver does."""
    sys.stdout.write("the driver is lost")
    sys.stdout.flush()
    os.abort()


def hangs(_: dict[str, Any]) -> dict[str, Any]:
    """Never answer."""
    time.sleep(3600)
    raise AssertionError


def prints(told: dict[str, Any]) -> dict[str, Any]:
    """Answer, and print as engines do."""
    sys.stdout.write("banner of an engine")
    return {"told": told}
