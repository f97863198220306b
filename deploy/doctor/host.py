"""This machine: room on the disk, and the port for metrics."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from deploy.doctor.finding import Finding, bad, odd, well
from runtime.settings import WebSettings

FULL_BYTES = 1 << 30
"""Below a gigabyte logs and an embedded broker's segments fill a disk within hours."""
TIGHT_SHARE = 0.05


def look_at_host(web: WebSettings, data: Path) -> Iterator[Finding]:
    """Yield what is found of ports and disk; `data` is where an embedded broker would keep its."""
    yield _port(web)
    folder = next(place for place in (data, *data.parents) if place.exists())
    yield judge_disk(folder, *shutil.disk_usage(folder)[::2])


def judge_disk(folder: Path, total: int, free: int) -> Finding:
    """Return the finding for a disk of so many bytes."""
    what = f"{free / 2**30:.1f} GiB free at {folder}"
    cure = "make room, or set --data-dir to another disk"
    if free < FULL_BYTES:
        return bad("disk", what, cure)
    return odd("disk", what, cure) if free < total * TIGHT_SHARE else well("disk", what)


def _port(web: WebSettings) -> Finding:
    if web.port == 0:
        return well("port", "each process takes a free one for metrics and logs it")
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((web.host, web.port))
        except OSError as error:
            taken = f"{web.host}:{web.port} for metrics: {error.strerror}"
            return bad("port", taken, "stop what listens there, or set another web.port", 2)
    return well("port", f"{web.host}:{web.port} is free for metrics")
