"""Topics and users as Strimzi's operators take them, made from the declarations.

Pure. Must not know files. YAML is written as JSON values a line each: it is read by machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from schemas.access import Grant, Resource, grants
from schemas.pools import DEFAULT_POOLS, Pool
from schemas.roles import Role
from schemas.topics import (
    PRODUCTION_PARTITIONS,
    REPLICAS_TO_LOSE_ONE,
    TopicNames,
    catalogue,
    changelogs,
)

API = "kafka.strimzi.io/v1"
CLUSTER = "kafka"
"""Name of the Kafka resource whose operators take them."""

_TYPES = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "group",
    Resource.TRANSACTIONAL_ID: "transactionalId",
}


def topics() -> str:
    """Return a KafkaTopic for every topic of a production layout, control's changelogs too."""
    names = TopicNames()
    declared = (*catalogue(names, DEFAULT_POOLS, PRODUCTION_PARTITIONS), *changelogs(names))
    return _documents(
        _resource(
            "KafkaTopic",
            topic.name,
            {
                "partitions": topic.partitions,
                "replicas": REPLICAS_TO_LOSE_ONE,
                "config": topic.config(REPLICAS_TO_LOSE_ONE),
            },
        )
        for topic in declared
    )


def users() -> str:
    """Return a KafkaUser for every role, with the least rights it needs; an executor's a pool."""
    return _documents(_user(name, role, pools) for name, role, pools in _who())


def _who() -> Iterator[tuple[str, Role, tuple[Pool, ...]]]:
    for role in Role:
        if role is Role.EXECUTOR:
            for pool in DEFAULT_POOLS:
                yield f"overspill-{role.value}-{pool.name}", role, (pool,)
        else:
            yield f"overspill-{role.value}", role, DEFAULT_POOLS


def _user(name: str, role: Role, pools: tuple[Pool, ...]) -> dict[str, Any]:
    acls = [_acl(grant) for grant in grants(role, TopicNames(), pools)]
    spec = {
        "authentication": {"type": "scram-sha-512"},
        "authorization": {"type": "simple", "acls": acls},
    }
    return _resource("KafkaUser", name, spec)


def _acl(grant: Grant) -> dict[str, Any]:
    resource = {
        "type": _TYPES[grant.resource],
        "name": grant.name,
        "patternType": "prefix" if grant.prefixed else "literal",
    }
    return {"resource": resource, "operations": [done.value for done in grant.operations]}


def _resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"strimzi.io/cluster": CLUSTER}}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def _documents(resources: Iterator[dict[str, Any]]) -> str:
    return "".join(f"---\n{_yaml(resource)}" for resource in resources)


def _yaml(node: dict[str, Any], indent: str = "") -> str:
    """Return a mapping as block YAML; what lies in lists is flow, which JSON is."""
    lines = []
    for key, value in node.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            items = "".join(f"{indent}  - {json.dumps(item)}\n" for item in value)
            lines.append(f"{indent}{key}:\n{items}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)
