"""Extras: what a part needs that not everybody installs, and how it is had."""

from __future__ import annotations

import sys


def install_command(extra: str) -> str:
    """Return the command that installs an extra where this process runs, as it can be pasted."""
    return f"{sys.executable or 'python'} -m pip install 'overspill[{extra}]'"
