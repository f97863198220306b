"""Loopback ports: which are free. A port is only a number that nobody listens on right now."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Tell whether nobody listens on this loopback port."""
    with socket.socket() as probe:
        # As the broker does: connections that were closed a moment ago do not make a port busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a loopback port that is free now; another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
