"""Who orders something or changes the registry, and why: as the flags say."""

from __future__ import annotations

import getpass
import os
import platform
from typing import Any

from pydantic import TypeAdapter, ValidationError

from schemas.errors import UsageError
from schemas.orders import WHO_CHARS_MAX, WHY_CHARS_MAX, Who, Why


def author(who: str | None, why: str) -> tuple[str, str]:
    """Return who says so, by default user@host, and why; raise UsageError unless both are lines."""
    said = _line("--who", who or _whoami(), Who, WHO_CHARS_MAX)
    return said, _line("--why", why, Why, WHY_CHARS_MAX)


def _line(flag: str, text: str, kind: Any, most: int) -> str:
    try:
        return str(TypeAdapter(kind).validate_python(text))
    except ValidationError as error:
        raise UsageError(f"{flag} takes one printable line of at most {most} characters") from error


def _whoami() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user id that no file names
        user = str(os.getuid())
    return f"{user}@{platform.node()}"[:WHO_CHARS_MAX]
