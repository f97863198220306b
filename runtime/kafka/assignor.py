"""Which member of a group owns which partitions: sticky, and in pairs.

A group reads a leader topic and its followers (requests with retry, gpu with gpu.express). Only the
leader's partitions are assigned; partition i of each follower goes where partition i of the leader
went. So one owner, one lock and one transactional id cover the pair. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyAssignorMemberMetadataV1,
    StickyPartitionAssignor,
)
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

PROTOCOL_NAME = "overspill-paired"
"""A group never mixes assignors: a plain sticky member that joins is refused by the broker."""


def paired_assignor(leader: str, followers: Sequence[str]) -> type[StickyPartitionAssignor]:
    """Return a new assignor class for one consumer.

    A class and not an instance, and one for each consumer: aiokafka keeps the state of stickiness
    in class attributes, which two consumers of one process would otherwise share.
    """

    class PairedAssignor(StickyPartitionAssignor):  # type: ignore[misc]  # aiokafka is untyped
        name = PROTOCOL_NAME

        @classmethod
        def parse_member_metadata(
            cls, metadata: ConsumerProtocolMemberMetadata
        ) -> StickyAssignorMemberMetadataV1:
            member = super().parse_member_metadata(metadata)
            return member._replace(
                subscription=[leader],
                partitions=[tp for tp in member.partitions if tp.topic == leader],
            )

        @classmethod
        def assign(
            cls,
            cluster: ClusterMetadata,
            members: Mapping[str, ConsumerProtocolMemberMetadata],
        ) -> dict[str, ConsumerProtocolMemberAssignment]:
            # A partition that was added before its followers waits for them: without them a lane
            # could not do its work, and would start again when they appear.
            exists = [set(cluster.partitions_for_topic(topic) or ()) for topic in followers]
            paired = {}
            for member, assignment in super().assign(cluster, members).items():
                owned = sorted(tp.partition for tp in assignment.partitions() if tp.topic == leader)
                whole = [number for number in owned if all(number in known for known in exists)]
                topics = [(topic, whole) for topic in (leader, *followers)] if whole else []
                paired[member] = ConsumerProtocolMemberAssignment(cls.version, topics, b"")
            return paired

    return PairedAssignor
