"""Linear programs by their rows, solved by HiGHS; needs the extra `sim`.

It knows nothing of what the variables mean.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import highspy
import numpy as np

from schemas.errors import OverspillError


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep HiGHS's banner, which no option turns off, out of what the program prints."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # C keeps what it prints to a pipe until then
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


class Rows:
    """A linear program by its rows, as HiGHS takes it."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self._upper: list[float] = []
        self._whole: list[int] = []
        self._least: list[float] = []
        self._most: list[float] = []
        self._starts: list[int] = []
        self._indices: list[int] = []
        self._values: list[float] = []

    def variable(self, cost: float, most: float = math.inf, *, whole: bool = False) -> int:
        """Return the number of a new variable between 0 and `most`."""
        if whole:
            self._whole.append(len(self.costs))
        self.costs.append(cost)
        self._upper.append(most)
        return len(self.costs) - 1

    def row(self, least: float, most: float, terms: Sequence[tuple[int, float]]) -> None:
        """Bound a sum of variables."""
        self._least.append(least)
        self._most.append(most)
        self._starts.append(len(self._indices))
        self._indices += [variable for variable, _ in terms]
        self._values += [factor for _, factor in terms]

    def solve(self) -> float | None:
        """Return the least cost, None if nothing obeys all rows.

        Raises:
            OverspillError: the solver found no answer, neither a cost nor that there is none.
        """
        if not self.costs:
            return 0.0
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(self.costs), len(self._least)
        program.col_cost_ = np.array(self.costs)
        program.col_lower_ = np.zeros(len(self.costs))
        program.col_upper_ = np.array(self._upper)
        program.row_lower_, program.row_upper_ = np.array(self._least), np.array(self._most)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = np.array([*self._starts, len(self._indices)])
        program.a_matrix_.index_ = np.array(self._indices)
        program.a_matrix_.value_ = np.array(self._values)
        if self._whole:
            kinds = [highspy.HighsVarType.kContinuous] * len(self.costs)
            for variable in self._whole:
                kinds[variable] = highspy.HighsVarType.kInteger
            program.integrality_ = kinds
        with _unheard():
            return self._solved(program)

    def _solved(self, program: highspy.HighsLp) -> float | None:
        solver = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy has few types
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("mip_rel_gap", 0.0)  # nearly the least would be no bound
        solver.passModel(program)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            why = solver.modelStatusToString(status)
            raise OverspillError(f"HiGHS gave up on a bound ({why}); please report the run")
        return float(solver.getInfo().objective_function_value)
