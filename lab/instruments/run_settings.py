"""The settings of a benchmark's run: topics of its own on a running broker. Knows no benchmark."""

from __future__ import annotations

import os
import time

from runtime.settings import Settings, load_settings


def own_settings(bootstrap_servers: str) -> Settings:
    """Return settings with a prefix that no other run has."""
    return settings_of(bootstrap_servers, f"bench-{os.getpid()}-{time.time_ns() % 10**9}.")


def settings_of(bootstrap_servers: str, prefix: str) -> Settings:
    """Return the settings of a run with this prefix."""
    return load_settings(flags={"kafka.bootstrap_servers": bootstrap_servers, "prefix": prefix})
