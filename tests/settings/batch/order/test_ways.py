"""A simulation gives the same in all three ways: fast, by what Numba documents alone, and as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = """
import os
from pathlib import Path

import numpy as np

from hdrl.compiled.borrow import borrow
from hdrl.compiled.cache import cache_folder
from hdrl.compiled.fields import first_row_of
from hdrl.compiled.jit import entry_in
from hdrl.compiled.borrow import take_as
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.identical_cores import engine, entries
from hdrl.settings.batch.identical_cores.state import (
    JOB_DTYPE,
    SETTINGS_DTYPE,
    OrderState,
    new_order_state,
    set_episode,
    smallest_state,
)

entry = entry_in(cache_folder("hdrl-test", [Path(__file__)]))
batch_at, first_row = take_as(smallest_state), first_row_of(OrderState)


@entry
def run(places, key):
    engine.run_key(borrow(first_row(batch_at(places))), key)


rng = np.random.default_rng(0)
jobs = np.zeros(40, dtype=JOB_DTYPE)
jobs["submit_s"] = np.cumsum(rng.integers(0, 20, 40))
jobs["run_s"] = rng.integers(1, 90, 40)
jobs["requested_time_s"] = jobs["run_s"] + rng.integers(0, 50, 40)
jobs["n_requested"] = rng.integers(1, 9, 40)
jobs["rank"] = np.arange(40)
settings = np.zeros(1, dtype=SETTINGS_DTYPE)
chosen = {"n_procs": 8, "commitment": 1, "backfilling": codes.EASY_FCFS, "order_key": codes.JOB_FIRST}
for name, value in (chosen | {"max_jobs": 8, "n_features": 8, "has_expectations": 1}).items():
    settings[name] = value
templates, columns = np.zeros((40, 8), dtype=np.float32), np.zeros(0, dtype=np.int64)
batch = new_order_state(1, 40, jobs=jobs, templates=templates, settings=settings, columns=columns)
set_episode(batch, 0, 0, 40)
if "HDRL_PLAIN_NUMBA" in os.environ:  # an entry of its own, since to compile all of the shipped ones takes minutes
    run(Borrowed(batch).addresses, codes.JOB_F1)
else:
    entries.run_keys(Borrowed(batch), [codes.JOB_F1])
print(batch.start_s[0].tolist())
"""


def starts(folder: Path, **way: str) -> str:
    """Return when the jobs of a small simulation start, in a process of its own."""
    (folder / "source.py").write_text(SOURCE)
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(folder / "source.py")],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment | way,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_simulation_is_the_same_in_all_three_ways(tmp_path: Path) -> None:
    expected = starts(tmp_path, NUMBA_DISABLE_JIT="1")
    assert expected.count(",") == 39
    assert "-1.0" not in expected
    assert starts(tmp_path) == expected
    assert starts(tmp_path, HDRL_PLAIN_NUMBA="1", NUMBA_CACHE_DIR=str(tmp_path)) == expected
