"""The jars of Apache Kafka: fetched once into the user's cache, only looked at afterwards.

Owns the cache folder and its manifest. Must not know how a broker is configured or run.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.local.kafka.diagnosis import disk_full, is_disk_full
from runtime.extras import install_command
from schemas.errors import LocalKafkaError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KAFKA_VERSION = "4.4.0"

_COORDINATES = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    # Resolved on its own: in one request with Kafka, the versions this one manages would replace
    # Kafka's own and mix two releases of kafka-clients on one class path.
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5",
)
_TIMEOUT_S = 30
"""For a repository to accept a connection or send its next bytes: slow mobile links need it."""
_DOWNLOADS = 4
"""Jars fetched at once: most are small, so waiting for answers is what takes the time."""
_REPORT_S = 1.0
"""Between two lines of progress: the 125 files come faster than anyone reads."""
_MANIFEST = "manifest.json"


def kafka_folder(progress: Callable[[str], None]) -> Path:
    """Return the folder that holds Kafka's `jars`, fetched (45 MB) when the cache lacks them.

    Needs neither network nor resolver once the jars are there. Safe when several processes call it
    at the same time: one fetches, the others wait.

    Raises:
        UsageError: the jars are missing and so is the extra `local` that fetches them.
        LocalKafkaError: the jars cannot be fetched or stored.
    """
    folder = cache_dir() / f"kafka-{KAFKA_VERSION}"
    if not _complete(folder):
        try:
            _fill(folder, progress)
        except OSError as error:
            raise _cannot_store(folder, error) from error
    return folder


def cache_dir() -> Path:
    """Return our folder in the user's cache (XDG_CACHE_HOME, else ~/.cache)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "overspill"


def _complete(folder: Path) -> bool:
    """Tell whether every jar of the manifest is there in its full size."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        return manifest["coordinates"] == list(_COORDINATES) and all(
            (folder / "jars" / name).stat().st_size == size
            for name, size in manifest["jars"].items()
        )
    except (OSError, ValueError, KeyError):
        return False


def _fill(folder: Path, progress: Callable[[str], None]) -> None:
    """Fetch into a folder beside the final one and rename it, under a lock between processes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"Waiting for another process that fetches Apache Kafka {KAFKA_VERSION}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _complete(folder):
            return
        # A file of a fetch that was killed may be cut short, and the resolver would trust it.
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        jars = partial / "jars"
        jars.mkdir(parents=True)
        for file in _fetch(partial / "repository", progress):
            file.rename(jars / file.name)
        shutil.rmtree(partial / "repository")
        manifest = {
            "coordinates": _COORDINATES,
            "jars": {jar.name: jar.stat().st_size for jar in sorted(jars.iterdir())},
        }
        (partial / _MANIFEST).write_text(json.dumps(manifest, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)


def _fetch(repository: Path, progress: Callable[[str], None]) -> list[Path]:
    """Resolve and download every jar below `repository`; return their paths, one a file name."""
    try:
        # Here, not above: only the first start needs the resolver, and it takes 0.3 s to import.
        from jgo.config import GlobalSettings  # noqa: PLC0415
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra() from error

    progress(f"Fetching Apache Kafka {KAFKA_VERSION} (45 MB, only this once)")
    context = MavenContext(
        resolver=PythonResolver(progress_callback=_download_progress(progress)),
        repo_cache=repository,
        local_repos=[],
        # The user's jgo configuration may name a mirror as `central`, or further repositories.
        remote_repos={"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories},
        timeout=_TIMEOUT_S,
    )
    with _silent_resolver() as complaints:
        try:
            artifacts: dict[str, Any] = {}
            for coordinate in _COORDINATES:
                asked, needed = context.resolver.resolve([context.create_dependency(coordinate)])
                for dependency in [*asked, *needed]:
                    artifacts[dependency.artifact.filename] = dependency.artifact
            with ThreadPoolExecutor(_DOWNLOADS) as pool:
                paths: list[Path] = list(pool.map(lambda a: a.resolve(), artifacts.values()))
        except Exception as error:
            if is_disk_full(error):
                raise
            raise _cannot_fetch(_reason(error)) from error
    if any("mismatch" in complaint for complaint in complaints):
        raise _cannot_fetch("a file arrived damaged: its checksum differs")
    return paths


def _download_progress(progress: Callable[[str], None]) -> Callable[[str, int], Any]:
    """Return the resolver's callback: it reports how much has come, once a second."""
    counted = threading.Lock()
    files = 0
    size = 0
    next_report = time.monotonic() + _REPORT_S

    @contextmanager
    def report(_name: str, total: int) -> Iterator[Callable[[int], None]]:
        nonlocal files, size, next_report
        yield lambda _received: None
        with counted:
            files += 1
            size += total
            if time.monotonic() < next_report:
                return
            next_report = time.monotonic() + _REPORT_S
            progress(
                f"Fetching Apache Kafka {KAFKA_VERSION}: {files} files, {size / 1e6:.1f} of 45 MB"
            )

    return report


@contextmanager
def _silent_resolver() -> Iterator[list[str]]:
    """Keep what the resolver logs off the user's screen; yield its complaints as they come."""
    complaints: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complaints.append(record.getMessage())

    logger = logging.getLogger("jgo")
    handler, propagate = Collect(logging.WARNING), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield complaints
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)


def _reason(error: Exception) -> str:
    """Say in words why the resolver failed; its own text holds addresses, maybe credentials."""
    name = type(error).__name__
    if "Timeout" in name:
        return "the repository did not answer in time"
    if isinstance(error, OSError):  # every error of the HTTP client is one
        return f"no connection to the repository: {name}"
    return f"the repository does not hold what is needed: {name}"


def _cannot_fetch(reason: str) -> LocalKafkaError:
    return LocalKafkaError(
        f"cannot fetch Apache Kafka {KAFKA_VERSION} ({reason}): connect this machine to the "
        "internet for one start (or name a mirror as `central` under [repositories] in "
        "~/.config/jgo.conf), or use a running broker with --bootstrap-servers"
    )


def _cannot_store(folder: Path, error: OSError) -> LocalKafkaError:
    if is_disk_full(error):
        return disk_full(folder)
    return LocalKafkaError(
        f"cannot write {folder} ({error.strerror or type(error).__name__}): "
        "make it writable or point XDG_CACHE_HOME elsewhere"
    )


def missing_extra() -> UsageError:
    """Return the error for an installation without what the embedded broker needs."""
    return UsageError(
        f"the embedded Kafka needs the extra `local`: {install_command('local')} "
        "(or use a running broker with --bootstrap-servers)"
    )
