"""A linear program has a least cost, or none, or the solver says that it does not know."""

from __future__ import annotations

import math

import pytest

from lab.savings.linear_program import Rows
from schemas.errors import OverspillError


def test_the_least_cost_obeys_all_rows() -> None:
    rows = Rows()
    cheap, dear = rows.variable(1.0, 2.0), rows.variable(3.0)
    rows.row(5.0, math.inf, [(cheap, 1.0), (dear, 1.0)])
    assert rows.solve() == pytest.approx(2.0 * 1.0 + 3.0 * 3.0)


def test_whole_numbers_are_rounded_up_to_what_the_rows_ask() -> None:
    rows = Rows()
    nodes = rows.variable(1.0, whole=True)
    rows.row(2.5, math.inf, [(nodes, 1.0)])
    assert rows.solve() == pytest.approx(3.0)


def test_nothing_that_obeys_all_rows_has_no_cost() -> None:
    rows = Rows()
    rows.row(3.0, math.inf, [(rows.variable(1.0, 2.0), 1.0)])
    assert rows.solve() is None


def test_a_solver_that_gives_up_has_not_found_that_nothing_obeys() -> None:
    rows = Rows()
    rows.row(-math.inf, 5.0, [(rows.variable(-1.0, whole=True), 0.0)])
    with pytest.raises(OverspillError, match="gave up"):
        rows.solve()
