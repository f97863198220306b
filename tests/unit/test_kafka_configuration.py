"""What the embedded broker is told."""

from __future__ import annotations

from pathlib import Path

from deploy.local.kafka.configuration import fencing_properties, server_properties


def settings(log_dir: str = "/data") -> dict[str, str]:
    text = server_properties(log_dir=Path(log_dir), port=9092, controller_port=9093)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_broker_listens_on_loopback_only() -> None:
    told = settings()
    assert told["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert told["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert told["controller.quorum.voters"] == "1@127.0.0.1:9093"


def test_an_abandoned_transaction_is_looked_for_every_second() -> None:
    assert settings()["transaction.abort.timed.out.transaction.cleanup.interval.ms"] == "1000"


def test_a_lone_broker_is_not_given_up_however_long_it_was_paused() -> None:
    """Without a leader Kafka leaves out the markers of transactions that are being committed."""
    assert int(settings()["broker.session.timeout.ms"]) >= 24 * 60 * 60 * 1000


def test_what_declares_a_former_self_dead_opens_no_port_to_clients() -> None:
    told = fencing_properties(log_dir=Path("/data"), controller_port=9093)
    assert "\nlisteners=CONTROLLER://127.0.0.1:9093\n" in told
    assert "PLAINTEXT://" not in told


def test_topics_are_never_made_by_a_misspelling() -> None:
    assert settings()["auto.create.topics.enable"] == "false"


def test_a_record_of_four_mebibytes_fits() -> None:
    assert int(settings()["message.max.bytes"]) > 4 << 20


def test_a_path_with_any_character_survives_the_properties_file() -> None:
    assert settings("/home/zoë/back\\slash/\U0001f600")["log.dirs"] == (
        "/home/zo\\u00eb/back\\\\slash/\\ud83d\\ude00"
    )
