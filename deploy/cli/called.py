"""How the user called us, so that the commands in our advice can be copied as they stand.

After `make demo` there is a `.venv/bin/overspill`, and none on the PATH.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

NAME = "overspill"
_COMMAND = re.compile(rf"(`|^ *|\| ){NAME}(?= [a-z-])", re.MULTILINE)
"""Ours at the beginning of a quotation, of a line, or behind a pipe."""


def called() -> str:
    """Return `overspill` where that is what a shell would start, else the path it was called by."""
    path = Path(sys.argv[0])
    if path.name != NAME:
        return NAME  # a module, a test: nothing that could be typed
    found = shutil.which(NAME)
    if found is not None and Path(found).resolve() == path.resolve():
        return NAME
    try:
        near = Path(os.path.relpath(path))
    except OSError:  # the folder that we stand in is gone
        return NAME
    if os.pardir in near.parts:
        return shlex.quote(str(path.absolute()))
    return shlex.quote(str(near) if len(near.parts) > 1 else f"./{near}")


def as_called(text: str) -> str:
    """Return a text with its commands of ours in the form in which the user called this one."""
    return _COMMAND.sub(lambda found: found.group(1) + called(), text)
