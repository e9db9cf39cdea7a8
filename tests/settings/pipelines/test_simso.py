"""EDF without preemption on independent tasks, job by job against SimSo (``pip install 'hdrl[simso]'``)."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

from hdrl.settings.pipelines.inputs import load_of
from hdrl.settings.pipelines.loads.load import PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import NEVER, Kernel, Pipeline
from hdrl.settings.pipelines.loads.readers import PipelineSet
from hdrl.settings.pipelines.loads.releases import Context
from hdrl.settings.pipelines.machine import read_machine
from hdrl.settings.pipelines.simulation.policies import simulate

with warnings.catch_warnings():  # it imports a module that Python 3.12 has no more
    warnings.simplefilter("ignore")
    simso = pytest.importorskip("simso.core", reason="SimSo is not installed")
    from simso.configuration import Configuration

N_TASKS, LENGTH_MS = 12, 2000


class NonPreemptiveEdf(simso.Scheduler):
    """The earliest deadline goes to the first idle processor; who runs is left alone."""

    def init(self) -> None:
        self.waiting: list[object] = []

    def on_activate(self, job: object) -> None:
        self.waiting.append(job)
        job.cpu.resched()

    def on_terminated(self, job: object) -> None:
        job.cpu.resched()

    def schedule(self, cpu: object) -> object:
        del cpu
        idle = [one for one in self.processors if one.running is None]
        if not self.waiting or not idle:
            return None
        job = min(self.waiting, key=lambda one: (one.absolute_deadline, one.activation_date, one.task.identifier))
        self.waiting.remove(job)
        return job, min(idle, key=lambda one: one.identifier)


def tasks(seed: int, n_units: int) -> tuple[PipelineLoad, list[tuple[int, int, int]]]:
    """Return independent tasks whose dates do not coincide: time, period and phase in microseconds."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(N_TASKS):
        period_us = int(random.integers(20_000, 90_000))
        share = float(random.uniform(0.3, 1.4)) * n_units / N_TASKS
        rows.append((int(share * period_us) | 1, period_us, int(random.integers(1, period_us))))
    pipelines = tuple(
        Pipeline(f"t{k}", (Kernel("k", time_us, NEVER),), phase_us=phase_us)
        for k, (time_us, _, phase_us) in enumerate(rows)
    )
    periods = tuple(period_us for _, period_us, _ in rows)
    found = PipelineSet("independent", pipelines, tuple((period,) for period in periods))
    return load_of(found, [Context(periods, LENGTH_MS * 1000)]), rows


def ends_of_simso(rows: list[tuple[int, int, int]], n_units: int) -> tuple[dict[tuple[int, int], int], float]:
    """Return the end of every job by task and number, in microseconds, and how many jobs it simulates in a second."""
    configuration = Configuration()
    configuration.cycles_per_ms = 1  # what it calls a millisecond is a microsecond here, so that nothing is rounded
    configuration.duration = 2 * LENGTH_MS * 1000
    for number, (time_us, period_us, phase_us) in enumerate(rows):
        configuration.add_task(
            name=f"t{number}",
            identifier=number + 1,
            period=period_us,
            activation_date=phase_us,
            wcet=time_us,
            deadline=period_us,
            abort_on_miss=False,
        )
    for number in range(n_units):
        configuration.add_processor(name=f"cpu{number}", identifier=number + 1)
    configuration.scheduler_info.clas = NonPreemptiveEdf
    configuration.check_all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = simso.Model(configuration)
        begin = time.perf_counter()
        model.run_model()
        seconds = time.perf_counter() - begin
    ends = {}
    for task in model.results.tasks.values():
        for number, job in enumerate(task.jobs):
            if job.end_date is not None:
                ends[task.task.identifier - 1, number] = round(job.end_date)
    return ends, len(ends) / seconds


@pytest.mark.parametrize("n_units", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_every_job_ends_when_simso_says(seed: int, n_units: int):
    load, rows = tasks(seed, n_units)
    trace = simulate(read_machine(f"{n_units}cpu"), load, "edf")
    ends, _ = ends_of_simso(rows, n_units)
    numbers = [0] * N_TASKS
    n_compared = 0
    # SimSo goes on releasing; before the first release that the load does not have, both see the same.
    table = load.instances
    last_us = min(int(table["release_us"][table["pipeline"] == k].max()) + rows[k][1] for k in range(N_TASKS))
    for pipeline, end_us in zip(load.instances["pipeline"].tolist(), trace.end_us.tolist(), strict=True):
        key = pipeline, numbers[pipeline]
        numbers[pipeline] += 1
        if end_us < last_us:
            assert ends[key] == end_us, key
            n_compared += 1
    assert n_compared > 300
