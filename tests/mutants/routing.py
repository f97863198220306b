"""Rules of the router, the policy and the control plane (`streams/`)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LANE = "streams/router/lane.py"
BATCH = "streams/router/batch.py"

MUTANTS = (
    Mutant(
        "after doubt a plan is believed that was not committed",
        "ends of transactions held back",
        LANE,
        "            if any(0 <= attempt.plan.next[s] <= truth[s].offset for s in (REQUESTS, RETRY)):",
        "            if truth:",
        "tests/unit/test_router_lane.py::test_after_doubt_a_batch_that_was_not_committed_is_decided_again",
    ),
    Mutant(
        "after doubt a plan that was committed is forgotten",
        "ends of transactions held back",
        LANE,
        "            if any(0 <= attempt.plan.next[s] <= truth[s].offset for s in (REQUESTS, RETRY)):",
        "            if not truth:",
        "tests/unit/test_router_lane.py::test_after_doubt_a_batch_that_was_committed_counts_as_seen",
    ),
    Mutant(
        "the window of repeats is not read back",
        "repeats and conflicts",
        "streams/router/rebuild.py",
        "        if now_ms - record.now_ms <= WINDOW_MS:",
        "        if now_ms < record.now_ms:",
        "tests/kafka/test_router.py::test_a_repeat_is_recognised_by_the_routers_successor",
    ),
    Mutant(
        "a repeat is decided again",
        "repeats and conflicts",
        BATCH,
        "            if seen == arrival.digest:\n                return None\n",
        "            if seen == arrival.digest:\n                seen = None\n        if seen is not None:\n",
        "tests/unit/test_router_batch.py::test_the_same_request_again_is_counted_and_yields_nothing",
    ),
    Mutant(
        "the same id with other bytes is a repeat",
        "repeats and conflicts",
        BATCH,
        "            if seen == arrival.digest:",
        "            if seen is not None:",
        "tests/unit/test_router_batch.py::test_the_same_id_with_other_bytes_is_a_conflict",
    ),
    Mutant(
        "a fault of the policy is an acknowledgement",
        "an exception in the policy",
        BATCH,
        "            desk.window.forget(identity)\n            return fault(error)",
        "            return None",
        "tests/unit/test_router_batch.py::test_a_fault_in_the_policy_is_a_dead_letter_and_the_next_record_flows",
    ),
    Mutant(
        "a bad record holds up its partition",
        "every poison record",
        BATCH,
        "            except RecordRejected as rejection:\n                arrival = rejection\n",
        "            except RecordRejected:\n                raise\n",
        "tests/unit/test_router_batch.py::test_a_bad_record_becomes_a_dead_letter_as_received",
    ),
    Mutant(
        "a record of a kilobyte too much is passed on",
        "sizes",
        "schemas/request.py",
        "REQUEST_BYTES_MAX:",
        "REQUEST_BYTES_MAX + 1024:",
        "tests/unit/test_request.py",
    ),
    Mutant(
        "a dead letter that no topic takes is written all the same",
        "sizes",
        "schemas/dead_letter.py",
        "    return size + HEADER_OVERHEAD_BYTES * len(headers) <= RECORD_BYTES_MAX - OURS_BYTES",
        "    return size >= 0",
        "tests/unit/test_dead_letter.py::test_what_only_fits_compressed_is_not_kept",
    ),
    Mutant(
        "a refusal's exclusion is ignored",
        "backends that refuse",
        "streams/policy/compatibility.py",
        "    return _after_refusals(offers, features, now_ms) if features.excluded else offers",
        "    return offers",
        "tests/unit/test_policy_nodes.py::test_a_node_that_refused_gets_nothing",
    ),
    Mutant(
        "lost offsets of a router are not looked for in its decisions",
        "groups deleted",
        "streams/router/rebuild.py",
        "            if counts is not None and record.next[source] >= 0:",
        "            if counts is None and record.next[source] >= 0:",
        "tests/kafka/test_router.py::test_lost_offsets_are_rebuilt_from_decisions",
    ),
    Mutant(
        "a request is routed although its time has passed",
        "repeats and conflicts",
        "streams/policy/rules.py",
        "now_ms >= features.expires_at_ms",
        "now_ms < 0",
        "tests/unit/test_router_batch.py::test_an_expired_request_ends_as_a_result_and_is_not_routed",
    ),
    Mutant(
        "a control worker that takes over goes on with what it knew, not with what was said last",
        "pause beyond the session",
        "streams/control/term.py",
        "            generation=last.generation + 1, threshold=last.threshold",
        "            generation=row.generation, threshold=row.threshold",
        "tests/unit/test_control_snapshot.py::test_a_successor_goes_on_with_the_threshold_one_generation_up",
    ),
    Mutant(
        "a redriven letter that is another one's repeat is not known as its end",
        "repeats and conflicts",
        "deploy/client/judge.py",
        "        if row.outcome == DUPLICATE\n",
        "        if row.source == REQUESTS and row.outcome == DUPLICATE\n",
        "tests/kafka/test_redrive.py::test_of_two_letters_of_the_same_bytes_one_runs_and_the_other_is_its_repeat",
    ),
    Mutant(
        "a letter that was sent in again counts as an end still",
        "repeats and conflicts",
        "deploy/client/judge.py",
        "and end.place not in superseded]",
        "]",
        "tests/kafka/test_redrive.py::test_each_letter_is_sent_in_again_once_and_its_new_end_counts",
    ),
)
