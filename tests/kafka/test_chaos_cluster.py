"""The broker of a chaos run: the embedded one, with a second listener."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.cluster import Cluster

pytestmark = pytest.mark.kafka


async def test_it_is_told_of_a_second_listener_and_starts_again_after_a_kill(
    tmp_path: Path,
) -> None:
    with Cluster(tmp_path / "kafka") as cluster:
        told = (tmp_path / "kafka" / "server.properties").read_text()
        assert f"PROXIED://127.0.0.1:{cluster.proxied_port}" in told
        await cluster.kill()
        await cluster.start()
        assert cluster.is_alive
