"""Linear programs of shares, solved by HiGHS."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hdrl.base.errors import MissingExtra, SimulationError
from hdrl.settings.gpu.policies.situation import Floats, Ints


def solve(cost: Floats, rows: list[tuple[Ints, Floats]], upper: Floats, bounds: Floats) -> Floats:
    """Return the variables, from 0 to ``bounds``, that make ``cost`` largest with every row at most ``upper``.

    A row holds the variables of a constraint and their factors. Among several best solutions that in the middle is
    taken (an interior point). Raise MissingExtra without HiGHS, SimulationError if there is no solution.
    """
    try:
        import highspy
    except ImportError:
        raise MissingExtra("highspy", "gpu") from None
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(cost), len(rows)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = -cost, np.zeros(len(cost)), bounds
    lp.row_lower_, lp.row_upper_ = np.full(len(rows), -highspy.kHighsInf), upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in rows])]).astype(np.int32)
    lp.a_matrix_.index_ = np.concatenate([columns for columns, _ in rows]).astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate([values for _, values in rows])
    solver = _solver()
    solver.clearSolver()
    solver.passModel(lp)
    solver.run()
    if solver.getModelStatus() not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown):
        raise SimulationError(f"HiGHS finds no allocation: {solver.modelStatusToString(solver.getModelStatus())}")
    return np.asarray(solver.getSolution().col_value, dtype=np.float64)


@functools.cache
def _solver() -> Any:
    """Return the solver of this process: making one takes longer than most programs."""
    import highspy

    solver: Any = highspy.Highs()
    options = {"output_flag": False, "solver": "ipm", "run_crossover": "off", "threads": 1, "presolve": "off"}
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver
