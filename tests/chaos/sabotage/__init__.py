"""Faults that can only be made from inside a role."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent
PATH = os.pathsep.join((str(HERE), str(HERE.parents[2])))
"""PYTHONPATH of a role: Python imports `sitecustomize` from there, and that our `tests`."""
