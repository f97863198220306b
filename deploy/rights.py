"""Rights on the brokers in the words of Kafka's own tools. Must not know who needs which."""

from __future__ import annotations

import shlex
from typing import Any

from schemas.access import Grant, Resource

_FLAGS = {
    Resource.TOPIC: "--topic",
    Resource.GROUP: "--group",
    Resource.TRANSACTIONAL_ID: "--transactional-id",
}


def command(grant: Grant, bootstrap_servers: str, principal: str) -> str:
    """Return the line that gives a principal one grant; it is run by who may alter ACLs."""
    pattern = ("--resource-pattern-type", "prefixed") if grant.prefixed else ()
    return shlex.join(
        (
            *("kafka-acls.sh", "--bootstrap-server", bootstrap_servers),
            *("--command-config", "admin.properties", "--add", "--allow-principal", principal),
            *(part for done in grant.operations for part in ("--operation", done.value)),
            *(_FLAGS[grant.resource], grant.name, *pattern),
        )
    )


def document(grant: Grant) -> dict[str, Any]:
    """Return a grant as JSON shows it."""
    return {
        "resource": grant.resource.value,
        "name": grant.name,
        "pattern": "prefixed" if grant.prefixed else "literal",
        "operations": [operation.value for operation in grant.operations],
    }
