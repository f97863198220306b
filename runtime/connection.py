"""From settings to what every Kafka client of ours is given: the one place that reads secrets."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NoReturn

from runtime.kafka.connection import Connection
from runtime.settings import KafkaSettings, Settings
from schemas.errors import UsageError


class Hidden(str):
    """A secret as the client library wants it; whoever shows what holds it shows stars."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return stars, whatever it is."""
        return "'***'"


def connection_of(settings: Settings) -> Connection:
    """Return the keyword arguments of every aiokafka client; Faust's are made from them.

    Raises:
        UsageError: a file with a certificate, key or password cannot be used.
    """
    kafka = settings.kafka
    connection: dict[str, object] = {"bootstrap_servers": kafka.bootstrap_servers}
    if kafka.security_protocol == "PLAINTEXT":
        return connection
    connection |= {"security_protocol": kafka.security_protocol, "ssl_context": _trust(kafka)}
    if kafka.security_protocol == "SASL_SSL":
        connection |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": kafka.username,
            "sasl_plain_password": Hidden(_password(kafka)),
        }
    return connection


def _trust(kafka: KafkaSettings) -> ssl.SSLContext:
    """Return a context that checks the brokers' certificates and names, and shows our own."""
    try:
        context = ssl.create_default_context(cafile=kafka.ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise _unusable("ca_file", kafka.ca_file, error) from None
    if kafka.certificate_file is not None:
        try:
            context.load_cert_chain(kafka.certificate_file, kafka.key_file, _no_passphrase)
        except OSError as error:
            named = "key_file" if kafka.key_file else "certificate_file"
            raise _unusable(named, kafka.key_file or kafka.certificate_file, error) from None
    return context


def _no_passphrase() -> NoReturn:
    # Without this OpenSSL would ask the terminal, and a service would hang.
    raise UsageError(
        "kafka.key_file has a passphrase: store the key without one, readable by us only"
    )


def _password(kafka: KafkaSettings) -> str:
    if kafka.password is not None:
        return kafka.password.get_secret_value()
    assert kafka.password_file is not None  # noqa: S101  settings are refused without either
    try:
        lines = kafka.password_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable("password_file", kafka.password_file, error) from None
    if len(lines) != 1 or not lines[0]:
        raise UsageError(
            f"kafka.password_file {kafka.password_file} must hold one line: the password"
        )
    return lines[0]


def _unusable(name: str, file: Path | None, error: Exception) -> UsageError:
    if isinstance(error, ssl.SSLError):
        why = "not PEM, or a certificate and a key that do not belong together"
    elif isinstance(error, OSError):
        why = error.strerror or type(error).__name__
    else:
        why = "not UTF-8"
    return UsageError(f"kafka.{name} {file} cannot be used: {why}")
