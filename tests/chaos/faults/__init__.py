"""The faults: each is one function that hurts a stack and lets it heal; its name is its row."""

from __future__ import annotations

from tests.chaos.faults import (
    broker,
    crash,
    disk,
    kill,
    members,
    network,
    offsets,
    pause,
    stop,
    topics,
    twins,
)
from tests.chaos.faults.fault import Fault, Needs

FAULTS = (
    Fault("crash points", crash.every_point, 30, starts=crash.STARTS),
    Fault("kill -9 at random", kill.at_random, 30),
    Fault("pause beyond the session", pause.beyond_the_session, 20),
    Fault("everything killed at once", kill.everything, 30),
    Fault("SIGTERM in mid-batch", stop.each_role, 20),
    Fault("two processes of one name", twins.same_name, 20),
    Fault("transactional ids taken by another", twins.hijacked, 20),
    Fault("members join and leave", members.join_and_leave, 15),
    Fault("partitions added", topics.grow, 15),
    Fault("groups deleted", offsets.groups_deleted, 30),
    Fault("offsets of the release before", offsets.of_the_release_before, 30),
    Fault("broker restarted", broker.restarted, 20, Needs.OWN_BROKER),
    Fault("broker killed", broker.killed, 30, Needs.OWN_BROKER),
    Fault("everything and the broker killed", broker.killed_with_all, 60, Needs.OWN_BROKER),
    Fault("broker away", broker.away, 60, Needs.OWN_BROKER),
    Fault("slow network", network.slow, 30, Needs.PROXY),
    Fault("network cut", network.cut, 30, Needs.PROXY),
    Fault("ends of transactions held back", network.ends_held_back, 30, Needs.PROXY),
    Fault("disk full", disk.full, 60, Needs.SMALL_DISK),
)

__all__ = ["FAULTS", "Fault", "Needs"]
