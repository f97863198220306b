"""What a controller's log says about the broker's former self."""

from __future__ import annotations

from deploy.local.kafka.fencing import is_fenced

REGISTERED = (
    "INFO ClusterControlManager: [QuorumController id=1] Replayed initial RegisterBrokerRecord for "
    "broker 1: RegisterBrokerRecord(brokerId=1, brokerEpoch=11, rack=null, fenced=true, "
    "inControlledShutdown=false, logDirs=[])\n"
)
CHANGED = (
    "INFO ClusterControlManager: [QuorumController id=1] Replayed BrokerRegistrationChangeRecord "
    "modifying the registration for broker 1: BrokerRegistrationChangeRecord(brokerId=1, "
    "brokerEpoch=11, fenced={}, inControlledShutdown=0, logDirs=[])\n"
)
ALIVE, UNCHANGED, DEAD = (CHANGED.format(word) for word in (-1, 0, 1))
ACTIVE = "INFO QuorumController: [QuorumController id=1] Becoming the active controller at epoch 3"


def test_a_broker_that_was_killed_counts_as_alive_until_the_controller_gives_it_up() -> None:
    log = REGISTERED + ALIVE + UNCHANGED + ACTIVE + "\n"
    assert not is_fenced(log)
    assert is_fenced(log + DEAD)


def test_history_that_is_still_being_read_says_nothing() -> None:
    assert not is_fenced(REGISTERED + ALIVE + DEAD)
    assert not is_fenced("")


def test_one_that_was_given_up_before_or_never_began_is_not_waited_for() -> None:
    assert is_fenced(REGISTERED + ALIVE + DEAD + ACTIVE)
    assert is_fenced(REGISTERED + ACTIVE)
    assert is_fenced(ACTIVE)


def test_a_snapshot_tells_of_a_living_broker_in_its_registration() -> None:
    assert not is_fenced(REGISTERED.replace("fenced=true", "fenced=false") + ACTIVE)
