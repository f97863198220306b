"""The demo's traffic is what it claims to be, and its account adds up."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from deploy.cli import demo_live, demo_run, main
from deploy.cli.demo_live import PlainViewer
from deploy.cli.demo_screen import last_screen
from deploy.client.judge import verdict
from deploy.client.terminal import Terminal
from deploy.local.demo.account import NOWHERE, Account, Way, account_of, document
from deploy.local.demo.run import Outcome, undecided
from deploy.local.demo.traffic import Kind, crowd, opening
from deploy.local.tiny_model import ADAPTERS
from schemas.errors import RecordRejected
from schemas.headers import Origin
from schemas.outcomes import DeadLetterCategory, Reason, Status
from schemas.parsing import parse_request
from schemas.pools import ComputeType
from schemas.request import Priority, arrival_ms, expiry_ms
from schemas.result import DecisionSummary, Result, ServedBy, Slo, Timings
from tests.fleet import node, snapshot

NOW_MS = 1_800_000_000_000
SHOTS = (*opening("run", NOW_MS), *crowd("run"))


PLACE = Origin("results", 0, 0)


def an_end(
    offset: int,
    pool: str,
    *,
    cost: float = 0.0,
    met: bool | None = None,
    adapter: str | None = None,
) -> Terminal:
    result = Result(
        id=f"r{offset}",
        status=Status.OK,
        output={},
        served_by=ServedBy(
            node="n", pool=pool, compute_type=ComputeType(pool), backend="llama", engine="e",
            device="d", model="m", adapter=adapter, emulated=pool != "cpu",
        ),
        timings_ms=Timings(to_router=1, total=2),
        cost=cost,
        slo=Slo() if met is None else Slo(ms=100, met=met),
        decision=DecisionSummary(
            reason=Reason.GPU_PREFERRED, threshold=10, policy="overflow", pool=pool
        ),
    )  # fmt: skip
    return Terminal(Origin("requests", 0, offset), f"r{offset}", result, "", "", offset, PLACE)


def a_dead_letter(offset: int) -> Terminal:
    return Terminal(Origin("requests", 0, offset), None, None, "not-json", "no JSON", offset, PLACE)


def test_every_kind_is_sent() -> None:
    assert {shot.kind for shot in SHOTS} == set(Kind)


def test_all_but_the_malformed_are_requests_of_their_kind() -> None:
    requests = [
        (shot.kind, parse_request(shot.value)) for shot in SHOTS if shot.kind != Kind.MALFORMED
    ]
    assert len({request.id for _, request in requests}) == len(requests)
    for kind, request in requests:
        assert (request.priority is Priority.REALTIME) == (kind is Kind.REALTIME)
        assert (request.priority is Priority.BATCH) == (kind is Kind.BATCH)
        assert request.has_lora == (kind is Kind.LORA)
        expired = expiry_ms(request, arrival_ms(request, NOW_MS)) < NOW_MS
        assert expired == (kind is Kind.EXPIRED)


def test_each_adapter_is_asked_to_go_on_with_the_same_prompt() -> None:
    asked = [parse_request(shot.value) for shot in SHOTS if shot.kind is Kind.LORA]
    assert {request.adapter for request in asked} == set(ADAPTERS)
    assert len({request.payload["prompt"] for request in asked}) == 1


def test_the_account_keeps_what_each_adapter_said_and_the_model_without_one() -> None:
    account = Account()
    for offset, adapter in enumerate((None, "code", "code", "news", None)):
        account.end(Kind.LORA, an_end(offset, "npu", adapter=adapter))
    assert [sample.adapter for sample in account.samples] == [None, "code", "news"]


def test_each_malformed_record_is_malformed_in_its_own_way() -> None:
    categories: Counter[DeadLetterCategory] = Counter()
    conflicting = 0
    for shot in SHOTS:
        if shot.kind is not Kind.MALFORMED:
            continue
        try:
            again = parse_request(shot.value)
        except RecordRejected as rejection:
            categories[rejection.category] += 1
        else:  # well-formed, but its id was sent before with other content
            conflicting += [s.key for s in SHOTS].count(again.id.encode()) == 2
    assert set(categories) == {
        DeadLetterCategory.NOT_JSON,
        DeadLetterCategory.BAD_ENCODING,
        DeadLetterCategory.NULL_VALUE,
        DeadLetterCategory.INVALID_FIELD,
        DeadLetterCategory.UNSUPPORTED_VERSION,
        DeadLetterCategory.TOO_DEEP,
    }
    assert conflicting == 1


def test_requests_that_ended_once_each_are_exactly_once() -> None:
    asked = {Origin("requests", 0, offset) for offset in range(2)}
    assert verdict(asked, [an_end(0, "gpu"), a_dead_letter(1)]).exactly_once


def test_a_repeat_ends_by_being_found_and_has_no_other_end() -> None:
    asked = {Origin("requests", 0, offset) for offset in range(2)}
    repeats = [Origin("requests", 0, 1)]
    assert verdict(asked, [an_end(0, "gpu")], repeats).exactly_once
    assert verdict(asked, [an_end(0, "gpu"), an_end(1, "gpu")], repeats).repeated


@pytest.mark.parametrize(
    ("ends", "flaw"),
    [
        ([an_end(0, "gpu")], "missing"),
        ([an_end(0, "gpu"), an_end(1, "gpu"), an_end(1, "cpu")], "repeated"),
        ([an_end(0, "gpu"), an_end(1, "gpu"), a_dead_letter(1)], "repeated"),
        ([an_end(0, "gpu"), an_end(1, "gpu"), an_end(2, "gpu")], "strange"),
    ],
)
def test_anything_else_is_not(ends: list[Terminal], flaw: str) -> None:
    judged = verdict({Origin("requests", 0, offset) for offset in range(2)}, ends)
    assert not judged.exactly_once
    assert len(getattr(judged, flaw)) == 1


def test_gpu_only_cost_is_the_mean_gpu_cost_of_every_request_that_ran() -> None:
    kinds = {Origin("requests", 0, offset): Kind.BATCH for offset in range(4)}
    ends = [an_end(0, "gpu", cost=0.06), an_end(1, "gpu", cost=0.04), an_end(2, "cpu", cost=0.01)]
    account = account_of(kinds, [*ends, a_dead_letter(3)])
    assert account.metered_cost == pytest.approx(0.11)
    assert account.gpu_only_cost == pytest.approx(0.15)
    assert account.emulated == {"gpu"}


def test_without_gpu_results_there_is_nothing_to_compare_with() -> None:
    account = account_of({Origin("requests", 0, 0): Kind.BATCH}, [an_end(0, "cpu", cost=1.0)])
    assert account.gpu_only_cost is None


def test_objectives_are_counted_where_there_was_one() -> None:
    account = Account()
    account.end(Kind.REALTIME, an_end(0, "gpu", met=True))
    account.end(Kind.REALTIME, an_end(1, "gpu", met=False))
    account.end(Kind.BATCH, an_end(2, "gpu"))
    assert (account.objectives, account.met) == (
        Counter({Kind.REALTIME: 2}),
        Counter({Kind.REALTIME: 1}),
    )


def test_the_document_counts_by_pool_and_reason() -> None:
    kinds = {Origin("requests", 0, 0): Kind.NORMAL, Origin("requests", 0, 1): Kind.MALFORMED}
    ends = [an_end(0, "gpu"), a_dead_letter(1)]
    said = document(account_of(kinds, ends), verdict(set(kinds), ends), [10, 9], 1.0)
    assert said["pools"] == {"gpu": 1, NOWHERE: 1}
    assert said["reasons"] == {"gpu-preferred": 1, "dead-letter": 1}
    assert said["dead_letters"] == {"not-json": 1}
    assert said["threshold"] == {"min": 9, "max": 10}
    assert said["exactly_once"] is True


@pytest.mark.parametrize("ends", [1, 2], ids=["one is missing", "all"])
def test_logs_and_data_are_kept_when_the_demo_finds_a_flaw(
    ends: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kinds = {Origin("requests", 0, offset): Kind.NORMAL for offset in range(2)}
    found = [an_end(offset, "gpu") for offset in range(ends)]

    async def run(*_: object) -> Outcome:
        return Outcome(account_of(kinds, found), verdict(set(kinds), found), [10], 1.0)

    monkeypatch.setattr(demo_run, "_run", run)
    monkeypatch.setattr(demo_run, "Stack", lambda *_: None)
    monkeypatch.setattr(demo_run, "start_broker", lambda **_: nullcontext())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = main(["demo", "--json"])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["exactly_once"] is (ends == 2)
    kept = list(tmp_path.iterdir())
    if ends == 2:
        assert (code, kept) == (0, [])
    else:
        assert (code, len(kept)) == (1, 1)
        assert f"Logs and data are kept in {kept[0]}." in shown.err
        assert "error: not every request ended exactly once" in shown.err


def test_a_request_of_somebody_else_is_not_in_the_account() -> None:
    account = account_of({Origin("requests", 0, 0): Kind.NORMAL}, [an_end(5, "gpu")])
    assert account.by_way == Counter[Way]()


def test_how_things_stand_is_said_when_it_changed_and_with_what_no_router_has_decided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_live, "LINE_EVERY_S", 0.0)
    account, viewer = Account(sent=Counter({Kind.BATCH: 5})), PlainViewer()
    told = snapshot([node("gpu-1", unfinished=2)])
    for waiting in (3, 3, 1):
        viewer.stands(account, told, waiting)
    lines = capsys.readouterr().err.splitlines()
    assert ["undecided: 3" in line for line in lines] == [True, False]
    assert "undecided: 1; unfinished: cpu 0, gpu 2" in lines[1]


def test_what_no_router_has_committed_is_undecided() -> None:
    told = snapshot([]).model_copy(update={"requests_included": (2,)})
    sent = [Origin("requests", partition, offset) for partition in (0, 1) for offset in range(3)]
    assert undecided(sent, told) == 1 + 3
    assert undecided(sent, None) == 6


def shown(account: Account, capsys: pytest.CaptureFixture[str]) -> str:
    last_screen(Outcome(account, verdict(set(), []), [10], 1.0))
    return " ".join(capsys.readouterr().out.split())


def test_what_did_not_run_says_why_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    account, late = Account(sent=Counter({Kind.NORMAL: 1})), an_end(0, "gpu")
    assert late.result is not None
    expired = late.result.model_copy(update={"status": Status.EXPIRED, "served_by": None})
    account.end(Kind.NORMAL, late._replace(result=expired))
    assert "gpu 1 (expired: its time had passed)" in shown(account, capsys)


@pytest.mark.parametrize("met", [True, False])
def test_objectives_are_shown_with_what_took_the_time_and_excused_where_missed(
    met: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    account, end = Account(), an_end(0, "gpu", cost=0.1, met=met)
    assert end.result is not None
    timed = end.result.model_copy(update={"timings_ms": Timings(to_router=1, run=80, total=212)})
    account.end(Kind.REALTIME, end._replace(result=timed))
    said = shown(account, capsys)
    assert f"100 ms {int(met)} 1 {100 * met} % 212 ms 80 ms" in said
    assert ("Missed is late, not lost" in said) == (not met)
    assert "whoever routes" not in said


def test_what_no_routing_could_have_met_is_not_blamed_on_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    account, end = Account(), an_end(0, "gpu", cost=0.1, met=False)
    assert end.result is not None
    timed = end.result.model_copy(update={"timings_ms": Timings(to_router=1, run=130, total=212)})
    account.end(Kind.REALTIME, end._replace(result=timed))
    assert "Of realtime the run alone took longer than the objective" in shown(account, capsys)
