"""The form of help texts: examples stand line for line, however wide the terminal is."""

from __future__ import annotations

from deploy.cli.called import as_called


def example(*lines: str) -> str:
    """Return an epilog that shows these command lines."""
    keep_lines = "\b"  # click's mark for a paragraph that is not to be wrapped
    title = "Examples:" if len(lines) > 1 else "Example:"
    return "\n".join((keep_lines, title, *(as_called(f"  {line}") for line in lines)))
