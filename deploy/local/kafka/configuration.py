"""What the embedded broker is told: server properties, quiet logging, JVM flags.

Pure text. Must not know where jars come from or how the process is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runtime.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

STARTED = "Kafka Server started"
"""What the broker logs once it answers clients; `LOG4J` lets this one line of INFO through."""

JVM_FLAGS = (
    "-Xmx512m",
    "-Xss512k",
    "-XX:+UseSerialGC",  # one node, two cores: the parallel collectors cost memory and gain nothing
    "-XX:TieredStopAtLevel=1",  # ready sooner and smaller; a laptop's load never needs the rest
    "-XX:-UsePerfData",  # leaves no file in the temporary folder
    "-XX:+ExitOnOutOfMemoryError",  # die and be explained rather than linger half alive
    "-Xrs",  # SIGTERM ends it at once: asked to stop under load it leaves out markers (ADR 0076)
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    # Java warns about what Kafka and its compressors do; here it would bury what matters.
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)

LOG4J = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.refused.name = kafka.authorizer.logger
logger.refused.level = info
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = info
"""


FENCING_LOG4J = f"""\
{LOG4J}
logger.controller.name = org.apache.kafka.controller
logger.controller.level = info
"""
"""The controller says at INFO which registrations of a broker it reads and makes."""


class Security(NamedTuple):
    """What a broker needs that lets in only whom it knows, each to what it is allowed.

    Attributes:
        identity: PEM, its certificate and its key (PKCS 8, no passphrase), for 127.0.0.1. Whoever
            holds it may do everything: give rights to others, first of all.
        authorities: PEM, who signs the certificates of clients.
        owner: the principal that the identity is, as "User:CN=broker".
    """

    identity: Path
    authorities: Path
    owner: str


def fencing_properties(*, log_dir: Path, controller_port: int) -> str:
    """Return the settings of the node as controller only, which soon gives up its former self."""
    settings = {
        "process.roles": "controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": f"CONTROLLER://{LOOPBACK}:{controller_port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(log_dir),
        # Nobody can report in time: there is no broker.
        "broker.session.timeout.ms": 200,
        "broker.heartbeat.interval.ms": 100,
    }
    return _lines(settings)


def server_properties(
    *,
    log_dir: Path,
    port: int,
    controller_port: int,
    security: Security | None = None,
    certificate_port: int = 0,
) -> str:
    """Return the settings of one KRaft node that is broker and controller, on loopback only.

    Args:
        log_dir: where its data is.
        port: what clients connect to; secured, those with a password.
        controller_port: of the controller.
        security: without it the broker is open to every process of this machine.
        certificate_port: secured, what clients with a certificate connect to.
    """
    if security is None:
        listeners, protocols = {"PLAINTEXT": port}, {"PLAINTEXT": "PLAINTEXT"}
        closed: dict[str, object] = {}
    else:
        listeners = {"SASL_SSL": port, "SSL": certificate_port}
        protocols = {"SASL_SSL": "SASL_SSL", "SSL": "SSL"}
        closed = _closed(security)
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": _at({**listeners, "CONTROLLER": controller_port}),
        "advertised.listeners": _at(listeners),
        "listener.security.protocol.map": ",".join(
            f"{listener}:{protocol}"
            for listener, protocol in {
                **protocols,
                "CONTROLLER": "PLAINTEXT" if security is None else "SSL",
            }.items()
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT" if security is None else "SSL",
        "log.dirs": str(log_dir),
        **closed,
        **_ONE_NODE,
        **_BEHAVIOUR,
    }
    return _lines(settings)


def _at(listeners: dict[str, int]) -> str:
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items())


def _closed(security: Security) -> dict[str, object]:
    """Return what closes a broker: TLS everywhere, SCRAM or a certificate, and ACLs."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(security.identity),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security.authorities),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": security.owner,
    }


_ONE_NODE = {
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    # 128 MB by default, allocated at the start; the compacted topics here hold a few thousand keys.
    "log.cleaner.dedupe.buffer.size": 8 << 20,
}

_BEHAVIOUR = {
    # A misspelt topic must be an error, not a new topic with the wrong partitions.
    "auto.create.topics.enable": "false",
    # Our topics but `requests` take records of 4 MiB; a batch adds less than 1 KiB around one.
    "message.max.bytes": (4 << 20) + 1024,
    # Nothing to wait for: the members of a group all start on this machine.
    "group.initial.rebalance.delay.ms": 0,
    # A day: a lone broker is never given up by its own controller, not even when both were paused;
    # its topics would be without a leader, and transactions without markers (`fencing`).
    "broker.session.timeout.ms": 24 * 60 * 60 * 1000,
    # How soon a killed process may be noticed.
    "group.min.session.timeout.ms": 6000,
    # An abandoned transaction holds up every read_committed reader until it is aborted; the
    # broker looks for those once a second instead of every ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}


def _lines(settings: dict[str, object]) -> str:
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(value: object) -> str:
    """Write a value so that Java's properties reader gives it back (a path may hold anything)."""
    text = str(value).replace("\\", "\\\\")
    return "".join(char if char.isascii() else _unicode(char) for char in text)


def _unicode(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
