"""Secrets come from the environment or from files, and are shown nowhere."""

from __future__ import annotations

import ssl
import traceback
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from deploy.cli.entry import cli, main
from deploy.local.fleet import LAPTOP, roles
from runtime.connection import connection_of
from runtime.settings import KafkaSettings, Settings, load_settings, parse_flag
from schemas.errors import UsageError
from streams.control.app import credentials
from tests.kafka.closed_kafka import CANARY
from tests.kafka.papers import Papers

USER = {"kafka.security_protocol": "SASL_SSL", "kafka.username": "router"}


def closed(tmp_path: Path, **more: Any) -> Settings:
    file = tmp_path / "password"
    file.write_text(f"{CANARY}\n")
    kafka = {"kafka.ca_file": Papers(tmp_path).authorities, "kafka.password_file": file}
    return load_settings(None, {**USER, **kafka, **more})


def test_a_password_in_a_file_reaches_the_clients_without_its_line_end(tmp_path: Path) -> None:
    connection = connection_of(closed(tmp_path))
    assert connection["sasl_plain_password"] == CANARY
    assert connection["sasl_plain_username"] == "router"
    assert connection["security_protocol"] == "SASL_SSL"
    assert connection["sasl_mechanism"] == "SCRAM-SHA-512"


def test_a_password_in_the_environment_reaches_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERSPILL_KAFKA__PASSWORD", CANARY)
    assert connection_of(load_settings(None, USER))["sasl_plain_password"] == CANARY


def test_faust_is_given_what_the_other_clients_are(tmp_path: Path) -> None:
    connection = connection_of(closed(tmp_path))
    given = credentials(connection)
    assert (given.username, given.password) == ("router", CANARY)
    assert given.ssl_context is connection["ssl_context"]
    assert (given.protocol.value, given.mechanism.value) == ("SASL_SSL", "SCRAM-SHA-512")


def test_faust_shows_the_same_certificate(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    kafka = KafkaSettings(
        security_protocol="SSL",
        ca_file=papers.authorities,
        certificate_file=papers.certificate("router"),
    )
    connection = connection_of(Settings(kafka=kafka))
    assert credentials(connection).context is connection["ssl_context"]
    assert credentials(connection).protocol.value == connection["security_protocol"] == "SSL"
    assert credentials(connection_of(Settings())) is None


def test_the_brokers_certificate_and_name_are_always_checked(tmp_path: Path) -> None:
    context = connection_of(closed(tmp_path))["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_nothing_that_is_shown_holds_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_file = closed(tmp_path)
    monkeypatch.setenv("OVERSPILL_KAFKA__PASSWORD", CANARY)
    by_variable = load_settings(None, USER)
    for settings in (by_file, by_variable):
        connection = connection_of(settings)
        shown = [
            repr(settings), str(settings), settings.model_dump_json(), repr(connection),
            str(connection), repr(credentials(connection)), f"{connection!r}",
            *(" ".join(spec.arguments) for spec in roles(settings, LAPTOP)),
        ]  # fmt: skip
        assert not [text for text in shown if CANARY in text]


@pytest.mark.parametrize(
    "flag", ["kafka.password={0}", 'kafka={{"password": "{0}"}}', "kafka.password=123{0}"]
)
def test_a_password_in_a_flag_is_refused_and_not_repeated(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--set", flag.format(CANARY)]) == 2
    said = capsys.readouterr().err
    assert "OVERSPILL_KAFKA__PASSWORD" in said
    assert CANARY not in said


def test_settings_that_are_refused_do_not_quote_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OVERSPILL_KAFKA__PASSWORD", CANARY)
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert CANARY not in "".join(traceback.format_exception(refused.value))


def test_a_password_of_the_wrong_kind_is_not_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "overspill.toml").write_text(f'[kafka]\npassword = ["{CANARY}"]\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        load_settings()
    assert CANARY not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kafka.username": "router"}, "SASL_SSL"),
        ({"kafka.password_file": "/x"}, "SASL_SSL"),
        ({"kafka.ca_file": "/x"}, "SSL or SASL_SSL"),
        ({"kafka.certificate_file": "/x"}, "SSL or SASL_SSL"),
        ({"kafka.security_protocol": "SASL_SSL"}, "needs username"),
        (USER, "the password from either"),
        ({"kafka.security_protocol": "SSL", "kafka.key_file": "/x"}, "certificate_file"),
        ({"kafka.security_protocol": "SASL_PLAINTEXT"}, "PLAINTEXT"),
    ],
)
def test_half_a_protection_is_refused_instead_of_ignored(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_settings(None, wrong)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("password_file", "", "one line"),
        ("password_file", f"{CANARY}\n{CANARY}\n", "one line"),
        ("password_file", None, "No such file"),
        ("ca_file", "not a certificate", "not PEM"),
        ("ca_file", None, "No such file"),
        ("certificate_file", "not a certificate", "not PEM"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_not_quoted(
    tmp_path: Path, name: str, content: str | None, says: str
) -> None:
    file = tmp_path / "wrong"
    if content is not None:
        file.write_text(content)
    settings = closed(tmp_path, **{f"kafka.{name}": file})
    with pytest.raises(UsageError, match=rf"kafka\.{name} {file}.*{says}") as refused:
        connection_of(settings)
    assert CANARY not in "".join(traceback.format_exception(refused.value))


def test_the_local_stack_is_open_whatever_another_broker_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its roles are told so by flags, which are stronger than the variable they inherit."""
    monkeypatch.setenv("OVERSPILL_KAFKA__PASSWORD", CANARY)
    local = Settings(kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1", password=None))
    del tmp_path
    for spec in roles(local, LAPTOP):
        flags = [flag[len("--set=") :] for flag in spec.arguments if flag.startswith("--set=")]
        assert connection_of(load_settings(None, dict(map(parse_flag, flags)))) == {
            "bootstrap_servers": "127.0.0.1:1"
        }


def test_the_rights_of_a_role_are_printed_for_kafkas_own_tool_and_for_programs() -> None:
    lines = CliRunner().invoke(cli, ["topics", "acl", "--role", "client"]).output.splitlines()
    assert lines[0] == (
        "kafka-acls.sh --bootstrap-server 127.0.0.1:9092 --command-config admin.properties --add "
        "--allow-principal User:client --operation Write --topic overspill.requests"
    )
    asked = ["topics", "acl", "--role", "executor", "--pool", "gpu", "--json"]
    document = orjson.loads(CliRunner().invoke(cli, asked).output)
    assert {"resource": "Topic", "name": "overspill.gpu", "pattern": "literal",
            "operations": ["Read"]} in document["grants"]  # fmt: skip
    assert "overspill.cpu" not in {grant["name"] for grant in document["grants"]}
