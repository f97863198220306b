"""Where the programs are that tests run beside Python; a test without its program is skipped."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(sys.prefix) / "tools"


def tool(name: str) -> str:
    """Return the path of a program; skip the test that asks where it is not to be had."""
    fetched = FOLDER / name
    found = str(fetched) if fetched.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here: `make tools` fetches it from Debian's packages")
    return found
