"""How long ago something was, in words."""

from __future__ import annotations


def ago(seconds: float) -> str:
    """Return a length of time in its largest unit, as `2 min ago`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
