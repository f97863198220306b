"""The ledger: what results say, added up by what was asked for."""

from __future__ import annotations

import pytest

from deploy.cli import main
from deploy.costs import Ledger, Spent
from schemas.outcomes import Reason, Status
from schemas.pools import ComputeType
from schemas.result import DecisionSummary, Result, ServedBy, Timings

DAY_1, DAY_2 = 1_764_460_799_999, 1_764_460_800_000  # before and at 2025-11-30T00:00Z


def result(pool: str | None, cost: float, tenant: str | None = None, **earlier: float) -> Result:
    served_by = pool and ServedBy(
        node=f"{pool}-1", pool=pool, compute_type=ComputeType.CPU, backend="b", engine="e",
        device="d", model="m",
    )  # fmt: skip
    return Result(
        id="r", status=Status.OK, served_by=served_by or None,
        timings_ms=Timings(to_router=0, total=0),
        cost=cost, earlier_cost=earlier, tenant=tenant, model_name="m",
        decision=DecisionSummary(reason=Reason.OVERFLOW, threshold=10, policy="overflow"),
    )  # fmt: skip


def test_a_request_counts_where_it_ended_and_costs_where_it_ran() -> None:
    ledger = Ledger(("pool",))
    ledger.take(result("cpu", 1.0, gpu=4.0), DAY_1)
    ledger.take(result("gpu", 2.0), DAY_1)
    ledger.take(result(None, 0.0), DAY_1)
    assert ledger.lines == {("cpu",): Spent(1, 1.0), ("gpu",): Spent(1, 6.0), ("",): Spent(1, 0.0)}
    assert ledger.total == Spent(3, 7.0)


def test_a_node_that_refused_before_it_ran_anything_has_no_line() -> None:
    ledger = Ledger(("pool",))
    ledger.take(result("cpu", 1.0, gpu=0.0), DAY_1)
    assert ledger.lines == {("cpu",): Spent(1, 1.0)}


def test_days_are_utc_and_tenants_apart() -> None:
    ledger = Ledger(("day", "tenant"))
    ledger.take(result("cpu", 1.0, "a"), DAY_1)
    ledger.take(result("cpu", 2.0, "a"), DAY_2)
    ledger.take(result("cpu", 4.0), DAY_2)
    assert ledger.lines == {
        ("2025-11-29", "a"): Spent(1, 1.0),
        ("2025-11-30", "a"): Spent(1, 2.0),
        ("2025-11-30", ""): Spent(1, 4.0),
    }


@pytest.mark.parametrize("by", ["", "pool,colour"])
def test_what_costs_cannot_be_added_up_by_is_wrong_usage(
    by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", "--by", by]) == 2
    assert "name some of day, tenant, model, pool" in capsys.readouterr().err
