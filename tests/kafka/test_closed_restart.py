"""A broker with TLS, SCRAM and rights that was killed fences its former self, and stays closed."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.closed_kafka import WITHIN_S, closed_kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def test_it_starts_again_on_its_data_as_closed_as_before(tmp_path: Path) -> None:
    with closed_kafka(tmp_path) as kafka:
        kafka.admit("client")
        made = kafka.admin.create_topics([NewTopic("kept", 1, 1)])
        made["kept"].result(WITHIN_S)
        assert not (tmp_path / "kafka" / "fencing.server.properties").exists()

    with closed_kafka(tmp_path) as kafka:
        assert (tmp_path / "kafka" / "fencing.server.properties").exists()
        assert "kept" in kafka.admin.list_topics(timeout=WITHIN_S).topics
        # Its password is still known, and no right has come to it.
        seen = AdminClient(kafka.librdkafka("client")).list_topics(timeout=WITHIN_S).topics
        assert "kept" not in seen
