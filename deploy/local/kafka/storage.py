"""The data directory of an embedded broker: what lies in it, and the making of room there.

Owns what lies in the folder. Must not know who uses it (`lock`) or how the broker is run.

    lock              whose folder this is
    log/              Kafka's own: topics, offsets, cluster id
    previous/         the log of before the last fresh start
    broker.log        what the broker printed since its last start (broker.log.1: the run before)
    server.properties, log4j2.properties, and fencing.* for what runs before the broker
    classes.lst       only during the first start on a machine (`class_archive`)
"""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.local.kafka.diagnosis import disk_full, is_disk_full
from schemas.errors import LocalKafkaError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Storage:
    """The places in one data directory."""

    data_dir: Path

    @property
    def log_dir(self) -> Path:
        """Kafka's own folder."""
        return self.data_dir / "log"

    @property
    def log_file(self) -> Path:
        """Where the broker's output goes."""
        return self.data_dir / "broker.log"

    @property
    def server_properties(self) -> Path:
        """The settings of the present run."""
        return self.data_dir / "server.properties"

    @property
    def log4j(self) -> Path:
        """The logging settings of the present run."""
        return self.data_dir / "log4j2.properties"

    @property
    def fencing_properties(self) -> Path:
        """The settings of the controller that runs before the broker."""
        return self.data_dir / "fencing.server.properties"

    @property
    def fencing_log4j(self) -> Path:
        """The logging settings of the controller that runs before the broker."""
        return self.data_dir / "fencing.log4j2.properties"

    @property
    def class_list(self) -> Path:
        """The classes that the first broker on this machine loads."""
        return self.data_dir / "classes.lst"

    @property
    def lock(self) -> Path:
        """The file whose kernel lock is the right to use the folder."""
        return self.data_dir / "lock"

    @property
    def is_formatted(self) -> bool:
        """Whether Kafka can start from what is there (it writes this file last)."""
        return (self.log_dir / "meta.properties").exists()


def default_data_dir() -> Path:
    """Return where data lives when nobody says otherwise (XDG_DATA_HOME, else ~/.local/share)."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "overspill" / "kafka"


def new_cluster_id() -> str:
    """Return a random cluster id: 16 bytes in URL-safe base 64, as Kafka writes them."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's tools would take it for a flag
            return text


def open_storage(data_dir: Path) -> Storage:
    """Return the storage in `data_dir`, made if it is not there.

    Raises:
        UsageError: the folder holds something else.
    """
    storage = Storage(data_dir.absolute())
    if data_dir.exists():
        if not data_dir.is_dir():
            raise UsageError(f"{data_dir} is not a folder: choose another with --data-dir")
        if any(data_dir.iterdir()) and not storage.lock.exists():
            raise UsageError(
                f"{data_dir} holds files that are not an embedded broker's: "
                "choose an empty or a new folder with --data-dir"
            )
    data_dir.mkdir(parents=True, exist_ok=True)
    return storage


def set_aside(storage: Storage, progress: Callable[[str], None]) -> None:
    """Make room for a fresh start: the present log becomes `previous`, the one before is deleted.

    Kept once, not for ever: a flag given by habit must not lose data for good nor fill the disk.
    """
    previous = storage.data_dir / "previous"
    if storage.log_dir.exists():
        shutil.rmtree(previous, ignore_errors=True)
        storage.log_dir.rename(previous)
        progress(f"Starting afresh; the data of before is in {previous} until the next fresh start")


def clear_unformatted(storage: Storage) -> None:
    """Remove what an interrupted format left, which Kafka would refuse to start from."""
    if not storage.is_formatted:
        shutil.rmtree(storage.log_dir, ignore_errors=True)


def keep_log(storage: Storage) -> None:
    """Keep what the run before has logged under another name."""
    if storage.log_file.exists():
        storage.log_file.replace(storage.log_file.with_name("broker.log.1"))


def write_settings(storage: Storage, *, server_properties: str, log4j: str) -> None:
    """Write the settings of this run."""
    storage.server_properties.write_text(server_properties)
    storage.log4j.write_text(log4j)


@contextmanager
def storage_errors(data_dir: Path) -> Iterator[None]:
    """Turn an operating system's refusal to read or write `data_dir` into one clear line."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise disk_full(data_dir) from error
        raise LocalKafkaError(
            f"cannot use {data_dir} ({error.strerror or type(error).__name__}): "
            "make it writable, or choose another folder with --data-dir"
        ) from error
