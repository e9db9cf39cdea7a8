"""No index into the arrays of a borrowed state is out of bounds: compiled code does not look."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ONE_ARRAY = """
from typing import NamedTuple
import numpy as np
from checked_arrays import checked
class Arrays(NamedTuple):
    numbers: np.ndarray
print(checked(Arrays(np.arange(2))).numbers[{index}])
"""


def run_plainly(*words):
    """Run Python without the compiler."""
    return subprocess.run(
        [sys.executable, "-W", "error", *words],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(FOLDER.parents[2])},
        capture_output=True,
        text=True,
    )


def test_indices_are_within_bounds():
    done = run_plainly(str(FOLDER / "indices.py"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 60


@pytest.mark.parametrize(("index", "told"), [(1, "1"), (-1, "index -1 is negative"), (2, "index 2 is out of bounds")])
def test_what_is_out_of_bounds_is_noticed(index, told):
    done = run_plainly("-c", ONE_ARRAY.format(index=index))
    assert told in done.stdout + done.stderr
