"""DNN jobs that adapt: what makes a setting of them, in its parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from hdrl.base.seeding import stream
from hdrl.metrics import UNRUN, with_roles
from hdrl.setting import Cautions, Inputs, LoadGenerator, Measures, Policy, Progress, RunView, Setting, Simulator
from hdrl.settings.adaptation.environments import AdaptationIndexSpec, AdaptationSpec
from hdrl.settings.adaptation.figures import FIGURES
from hdrl.settings.adaptation.files import FILES, read_run
from hdrl.settings.adaptation.inputs import find_tables, load_of
from hdrl.settings.adaptation.load import Jobs, check_device, poisson_jobs
from hdrl.settings.adaptation.machine import Device, read_device
from hdrl.settings.adaptation.metrics import METRICS, compute_metrics
from hdrl.settings.adaptation.named_policies import AdaptationPolicies, Own, Situation
from hdrl.settings.adaptation.options import AdaptationOptions, AdaptationSweep
from hdrl.settings.adaptation.policies import make_advisor
from hdrl.settings.adaptation.simulation import AdaptingJob, decide_step_by_step, simulate
from hdrl.trace.model import OutcomeTrace

if TYPE_CHECKING:
    from hdrl.figures.figure import Run

FEW_DRAWS = 10
"""Trainings of each sequence below which its mean says little."""


class AdaptationInputs(
    Inputs[AdaptationOptions, AdaptationSweep, Device, Jobs],
    LoadGenerator[AdaptationSweep, Device, Jobs],
    Cautions[AdaptationSweep, Device, Jobs],
):
    """Devices, and jobs of tables."""

    Options = AdaptationOptions
    Sweep = AdaptationSweep
    generator = "tables"

    def machine(self, options: AdaptationOptions | AdaptationSweep) -> Device:
        """Read the device."""
        return read_device(options.platform, f"{options.where}: platform")

    def load(self, options: AdaptationOptions, machine: Device) -> Jobs:
        """Return the jobs of an experiment."""
        return load_of(options, options.workload, machine)

    def loads(self, sweep: AdaptationSweep, machine: Device) -> list[Jobs]:
        """Return the jobs of a comparison."""
        return [load_of(sweep, text, machine) for text in sweep.workloads]

    def generate(
        self, sweep: AdaptationSweep, machine: Device, n_items: int, *, offered_load: float, seed: int
    ) -> Jobs:
        """Return jobs of random tables of all workloads, or of all shipped ones, that come as a Poisson process."""
        texts = sweep.workloads or [self.generator]
        tables = [table for text in texts for table in find_tables(text, sweep.path_of(text), sweep.where)]
        load = poisson_jobs(f"{self.generator}@{offered_load:g}", tables, n_items, offered_load, seed)
        check_device(load, machine)
        return load

    def offered_load(self, machine: Device, load: Jobs) -> float | None:
        """Return the budgets that arrive per time; ``None`` where each job comes when the one before has ended."""
        del machine
        if np.allclose(np.diff(load.release_s), load.budgets_s[:-1]):
            return None
        span_s = float(load.release_s[-1] - load.release_s[0])
        return float(load.budgets_s[:-1].sum()) / span_s if span_s else None

    def cautions(self, sweep: AdaptationSweep, machine: Device, loads: Sequence[Jobs]) -> list[tuple[str, str]]:
        """Return cautions for readers: noise that looks like truth, and rewards by the data that judge."""
        del sweep, machine
        found = []
        for load in loads:
            few = [table.name for table in load.tables if table.n_draws < FEW_DRAWS]
            if few:
                words = f"measured each sequence fewer than {FEW_DRAWS} times, so that the best one may be best by luck"
                found.append(("few-draws", f"{load.name}: {_words(few)} {words}"))
            mixed = [table.name for table in load.tables if not table.has_validation]
            if mixed:
                words = "test accuracies alone, so that policies that try sequences out see what they are judged by"
                verb = "holds" if len(mixed) == 1 else "hold"
                found.append(("no-validation", f"{load.name}: {_words(mixed)} {verb} {words}"))
        return found


class AdaptationSimulator(Simulator[AdaptationOptions, AdaptationSweep, Device, Jobs, OutcomeTrace]):
    """Jobs, one after the other."""

    def simulate(
        self,
        machine: Device,
        load: Jobs,
        policy: Policy,
        *,
        seed: int,
        options: AdaptationOptions | AdaptationSweep | None = None,
        progress: Progress | None = None,
        folder: Path | None = None,
    ) -> OutcomeTrace:
        """Run jobs as a policy says."""
        del options, folder
        advisor = _OwnAdvisor(policy) if isinstance(policy, Own) else make_advisor(str(policy), _random(seed, load))
        return simulate(machine, load, advisor, progress)


class AdaptationView(RunView):
    """Tables, and what became of each job."""

    def read(self, folder: Path, name: str | None = None) -> Run:
        """Return the contents of a run's files."""
        return read_run(folder, name)


class _OwnAdvisor:
    """Calls a user's function before each decision."""

    def __init__(self, own: Own) -> None:
        self._own = own

    def choose(self, job: AdaptingJob) -> int:
        """Return the sequence of a job."""
        table = job.table

        def decide(state: int, actions: Sequence[int]) -> int:
            left_s = float(table.time_left_s[state])
            seen = (table.models[state].layers, left_s, table.budget_s, len(actions), table.n_steps)
            return self._own.advise(Situation(*seen, table.n_actions - 1))

        return decide_step_by_step(table, decide)

    def observe(self, job: AdaptingJob, chosen: int | str, validation: float) -> None:
        """Ignore the outcome."""


def _random(seed: int, load: Jobs) -> np.random.Generator:
    """Return random numbers that differ from window to window: what a policy draws must not repeat itself."""
    return stream(seed, f"policy {load.sha256()}")


def _words(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


SETTING = Setting(
    name="adaptation",
    title="DNN jobs that adapt under a time budget",
    inputs=AdaptationInputs(),
    simulator=AdaptationSimulator(),
    policies=AdaptationPolicies(),
    measures=Measures(
        with_roles(
            METRICS,
            compared=("mean_regret", "mean_rank", "mean_accuracy", "relative_cost"),
            shown=(
                *("n_jobs", "mean_accuracy", "mean_expected_accuracy", "mean_regret", "last_regret", "mean_rank"),
                *("share_best", "mean_search_s", "relative_cost", "mean_n_deepened", "n_tied", *UNRUN),
            ),
            headline=("mean_accuracy", "mean_regret", "mean_rank", "share_best", "relative_cost"),
        ),
        compute_metrics,
    ),
    view=AdaptationView(files=FILES, figures=FIGURES),
    environments=MappingProxyType({"adaptation": AdaptationSpec(), "adaptation_index": AdaptationIndexSpec()}),
)
"""DNN jobs that adapt."""
