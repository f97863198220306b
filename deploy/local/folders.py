"""Where a local stack keeps things: one folder, shared by `up` and `kafka`.

kafka/   the broker's data (deploy.local.kafka.storage)
logs/    what each role printed: router.log, control.log, executor-gpu.log ...
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from deploy.local.kafka.storage import default_data_dir


class Folders(NamedTuple):
    """The places in one data folder."""

    root: Path

    @staticmethod
    def of(data_dir: Path | None) -> Folders:
        """Return the places in `data_dir`, without one in the user's own data folder."""
        return Folders(default_data_dir().parent if data_dir is None else data_dir.absolute())

    @property
    def kafka(self) -> Path:
        """The broker's data."""
        return self.root / "kafka"

    @property
    def logs(self) -> Path:
        """What the roles printed."""
        return self.root / "logs"
