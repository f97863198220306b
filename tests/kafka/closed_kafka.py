"""An embedded Kafka that lets in only whom it knows: certificates, passwords and rights for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from deploy.local.kafka import Broker, Security, start_broker
from runtime.ports import free_port
from schemas.access import Grant, Operation, Resource
from tests.kafka.papers import Papers

CANARY = "canary-7f3a"
"""In every password: what prints one is found by it."""
OWNER = "broker"
WITHIN_S = 20

_RESOURCES = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS = {
    Operation.READ: AclOperation.READ,
    Operation.WRITE: AclOperation.WRITE,
    Operation.CREATE: AclOperation.CREATE,
    Operation.ALTER: AclOperation.ALTER,
    Operation.DESCRIBE: AclOperation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
}


class ClosedKafka(NamedTuple):
    """A running broker with TLS, SCRAM and an authorizer, and who owns it."""

    broker: Broker
    papers: Papers
    folder: Path
    admin: AdminClient

    def password(self, user: str) -> str:
        """Return the password of a user."""
        return f"{CANARY}-{user}"

    def password_file(self, user: str) -> Path:
        """Return a file with it."""
        file = self.folder / f"{user}.password"
        file.write_text(f"{self.password(user)}\n")
        return file

    def admit(self, *users: str) -> None:
        """Let the broker know these users by their passwords."""
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = [
            UserScramCredentialUpsertion(user, scram, self.password(user).encode())
            for user in users
        ]
        for made in self.admin.alter_user_scram_credentials(wanted).values():
            made.result(WITHIN_S)

    def allow(self, principal: str, grants: tuple[Grant, ...]) -> None:
        """Give a principal these rights."""
        wanted = [
            AclBinding(
                _RESOURCES[grant.resource],
                grant.name,
                ResourcePatternType.PREFIXED if grant.prefixed else ResourcePatternType.LITERAL,
                principal,
                "*",
                _OPERATIONS[operation],
                AclPermissionType.ALLOW,
            )
            for grant in grants
            for operation in grant.operations
        ]
        for made in self.admin.create_acls(wanted).values():
            made.result(WITHIN_S)

    def librdkafka(self, user: str) -> dict[str, Any]:
        """Return what another client library needs to be this user."""
        return {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.papers.authorities),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.password(user),
            "log_level": 0,
        }

    def said(self) -> str:
        """Return what the broker logged."""
        return self.broker.log_file.read_text(errors="replace")

    def allowed(self, user: str, topics: list[str]) -> dict[str, set[str]]:
        """Return what the broker says that a user may do, by topic."""
        client = AdminClient(self.librdkafka(user))
        asked = client.describe_topics(TopicCollection(topics), include_authorized_operations=True)
        return {topic: _operations(answer) for topic, answer in asked.items()}


def _operations(answer: Any) -> set[str]:
    try:
        described = answer.result(WITHIN_S)
    except KafkaException as error:
        assert error.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"  # noqa: PT017  the other answer
        return set()
    return {operation.name for operation in described.authorized_operations}


@contextmanager
def closed_kafka(folder: Path) -> Iterator[ClosedKafka]:
    """Run a broker that nobody but its owner may use yet."""
    papers = Papers(folder)
    identity = papers.certificate(OWNER)
    with start_broker(
        port=free_port(),
        data_dir=folder / "kafka",
        security=Security(identity, papers.authorities, f"User:CN={OWNER}"),
        progress=print,
    ) as broker:
        admin = AdminClient(
            {
                "bootstrap.servers": broker.certificate_servers,
                "security.protocol": "SSL",
                "ssl.ca.location": str(papers.authorities),
                "ssl.certificate.location": str(identity),
                "ssl.key.location": str(identity),
                "log_level": 0,
            }
        )
        yield ClosedKafka(broker, papers, folder, admin)
