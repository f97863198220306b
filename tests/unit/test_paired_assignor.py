"""The paired assignor: partition i of every follower goes where the leader's partition i goes."""

from __future__ import annotations

from collections import Counter

from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

from runtime.kafka.assignor import PROTOCOL_NAME, paired_assignor

LEADER, FOLLOWER = "requests", "retry"


class Cluster:
    """The two questions an assignor asks of a cluster."""

    def __init__(self, **partitions: int) -> None:
        self._partitions = {topic: set(range(count)) for topic, count in partitions.items()}

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)


class Group:
    """Members that join, keep what they were given and take part in the next rebalance."""

    def __init__(self, *members: str) -> None:
        self.members = {name: paired_assignor(LEADER, [FOLLOWER]) for name in members}
        self.generation = 0

    def join(self, name: str) -> None:
        self.members[name] = paired_assignor(LEADER, [FOLLOWER])

    def leave(self, name: str) -> None:
        del self.members[name]

    def rebalance(self, cluster: Cluster) -> dict[str, dict[str, list[int]]]:
        self.generation += 1
        claims = {n: m.metadata([LEADER, FOLLOWER]) for n, m in self.members.items()}
        leader = next(iter(self.members.values()))
        given = leader.assign(cluster, claims)
        for name, assignment in given.items():
            received = ConsumerProtocolMemberAssignment.decode(assignment.encode())
            self.members[name].on_assignment(received)
            self.members[name].on_generation_assignment(self.generation)
        return {name: dict(assignment.assignment) for name, assignment in given.items()}


def test_a_follower_partition_goes_to_the_owner_of_the_leader_partition() -> None:
    given = Group("a", "b").rebalance(Cluster(requests=4, retry=4))
    assert given["a"][LEADER] == given["a"][FOLLOWER]
    assert given["b"][LEADER] == given["b"][FOLLOWER]
    assert sorted(given["a"][LEADER] + given["b"][LEADER]) == [0, 1, 2, 3]
    assert len(given["a"][LEADER]) == 2


def test_a_member_that_joins_takes_half_and_moves_nothing_else() -> None:
    cluster = Cluster(requests=8, retry=8)
    group = Group("a", "b")
    before = group.rebalance(cluster)
    group.join("c")
    after = group.rebalance(cluster)
    for name in ("a", "b"):
        assert set(after[name][LEADER]) < set(before[name][LEADER])
    assert sorted(len(topics[LEADER]) for topics in after.values()) == [2, 3, 3]


def test_a_member_that_leaves_moves_only_its_own_partitions() -> None:
    cluster = Cluster(requests=6, retry=6)
    group = Group("a", "b", "c")
    before = group.rebalance(cluster)
    group.leave("b")
    after = group.rebalance(cluster)
    for name in ("a", "c"):
        assert set(before[name][LEADER]) <= set(after[name][LEADER])
    owners = Counter(p for topics in after.values() for p in topics[LEADER])
    assert owners == Counter(range(6))


def test_a_member_that_slept_through_rebalances_gets_nothing_by_its_stale_claim() -> None:
    cluster = Cluster(requests=6, retry=6)
    group = Group("sleeper", "b")
    group.rebalance(cluster)
    sleeper = group.members.pop("sleeper")
    group.rebalance(cluster)
    group.join("c")
    before = group.rebalance(cluster)
    group.members = {"sleeper": sleeper, **group.members}  # it still claims what it had at first
    after = group.rebalance(cluster)
    for name in ("b", "c"):
        assert set(after[name][LEADER]) <= set(before[name][LEADER])


def test_a_leader_partition_waits_for_its_followers() -> None:
    group = Group("a")
    assert group.rebalance(Cluster(requests=4, retry=2))["a"] == {LEADER: [0, 1], FOLLOWER: [0, 1]}
    grown = group.rebalance(Cluster(requests=4, retry=4))["a"]
    assert grown == {LEADER: [0, 1, 2, 3], FOLLOWER: [0, 1, 2, 3]}


def test_follower_partitions_beyond_the_leader_belong_to_nobody_yet() -> None:
    given = Group("a").rebalance(Cluster(requests=2, retry=4))
    assert given["a"] == {LEADER: [0, 1], FOLLOWER: [0, 1]}


def test_without_a_follower_topic_nothing_is_assigned() -> None:
    assert Group("a").rebalance(Cluster(requests=2))["a"] == {}


def test_more_members_than_partitions_leave_some_idle() -> None:
    given = Group("a", "b", "c").rebalance(Cluster(requests=1, retry=1))
    assert sorted(len(topics.get(LEADER, [])) for topics in given.values()) == [0, 0, 1]


def test_two_consumers_of_one_process_share_no_state() -> None:
    first, second = paired_assignor(LEADER, [FOLLOWER]), paired_assignor(LEADER, [FOLLOWER])
    first.on_assignment(ConsumerProtocolMemberAssignment(0, [(LEADER, [0])], b""))
    first.on_generation_assignment(7)
    assert second.member_assignment is None
    assert second.generation == -1
    assert first.name == second.name == PROTOCOL_NAME
