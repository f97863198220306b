"""Before a broker starts on data of before: its controller alone declares the former self dead.

A broker that starts while its former self still counts as alive takes itself for the leader of all
that one led, its transaction coordinator goes to work, and then the former self is fenced: for a
moment no partition has a leader, and markers of transactions are skipped for good (ADR 0076).
Owns that first step. Must not know how the broker itself is run.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from deploy.local.kafka.configuration import FENCING_LOG4J, fencing_properties
from deploy.local.kafka.diagnosis import explain
from deploy.local.kafka.guarded import Guarded
from runtime.ports import free_port
from schemas.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from deploy.local.kafka.storage import Storage

_FENCED_WITHIN_S = 90.0
"""1.7 s on an idle machine."""
_LOOK_S = 0.02
_APPENDS = 2
"""The first append that is seen after the fencing was said may have begun before it; the controller
appends something every 0.5 s."""

_ACTIVE = re.compile(r"Becoming the active controller at")
_REGISTRATION = re.compile(r"Replayed .*for broker 1: .*fenced=(true|false|-?\d)")
_FENCED = {"true": True, "false": False, "1": True, "-1": False}
"""A registration says true or false, a change of one says 1, -1, or 0 for no change of it."""


def is_fenced(log: str) -> bool:
    """Tell from a controller's log whether it is at work and no broker counts as alive."""
    if not _ACTIVE.search(log):
        return False  # what it replays so far may be history
    said = [word for word in _REGISTRATION.findall(log) if word in _FENCED]
    return not said or _FENCED[said[-1]]


def fence_former_self(java: Sequence[str], storage: Storage, lock: int) -> None:
    """Run the controller in `storage` until no broker counts as alive, on disk too.

    Args:
        java: the Java executable with all that comes before the name of the main class.
        storage: a formatted one, in nobody's use.
        lock: the descriptor that locks it.

    Raises:
        LocalKafkaError: the controller does not start.
    """
    storage.fencing_properties.write_text(
        fencing_properties(log_dir=storage.log_dir, controller_port=free_port())
    )
    storage.fencing_log4j.write_text(FENCING_LOG4J)
    command = [*java, f"-Dlog4j2.configurationFile={storage.fencing_log4j}", "kafka.Kafka"]
    controller = Guarded(
        [*command, str(storage.fencing_properties)], lock=lock, log_file=storage.log_file
    )
    try:
        _wait(controller, storage, lambda: is_fenced(_log(storage)))
        for _ in range(_APPENDS):
            size = _metadata_bytes(storage)
            _wait(controller, storage, lambda: _metadata_bytes(storage) != size)  # noqa: B023  # called at once
    finally:
        controller.stop()


def _wait(controller: Guarded, storage: Storage, holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _FENCED_WITHIN_S
    while not holds():
        if controller.exit_code() is not None:
            raise explain(_log(storage), happened="did not start", log_file=storage.log_file)
        if time.monotonic() > give_up:
            raise LocalKafkaError(
                f"the embedded Kafka did not become ready within {_FENCED_WITHIN_S:.0f} s: "
                f"this machine may be too busy; try again, or read {storage.log_file}"
            )
        time.sleep(_LOOK_S)


def _log(storage: Storage) -> str:
    return storage.log_file.read_text(errors="replace")


def _metadata_bytes(storage: Storage) -> int:
    folder = storage.log_dir / "__cluster_metadata-0"
    return sum(segment.stat().st_size for segment in folder.glob("*.log"))
