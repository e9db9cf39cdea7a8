"""Periodic pipelines on CPU and GPU units: what makes a setting of them, in its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hdrl.base.files import expanded
from hdrl.metrics import with_roles
from hdrl.setting import (
    Cautions,
    Inputs,
    LoadGenerator,
    Measures,
    Message,
    Policy,
    Progress,
    RunView,
    Setting,
    Simulator,
)
from hdrl.settings.pipelines.environments import PipelinesIndexSpec, PipelinesSpec
from hdrl.settings.pipelines.files import FILES
from hdrl.settings.pipelines.inputs import file_of, generated_load, generated_loads, in_a_row, load_of
from hdrl.settings.pipelines.loads.load import PipelineLoad, Times, check_runs_on
from hdrl.settings.pipelines.machine import Units, read_machine
from hdrl.settings.pipelines.metrics import METRICS, compute_metrics
from hdrl.settings.pipelines.named_policies import PipelinePolicies
from hdrl.settings.pipelines.options import GENERATED, PipelineLoadOptions, PipelineOptions, PipelineSweep
from hdrl.settings.pipelines.simulation.trace import PipelineTrace

if TYPE_CHECKING:
    from hdrl.figures.figure import Figure, Run

MAX_PLANNED = 12
"""Up to this many pipelines a comparison checks whether a static mapping is enough."""


class PipelineInputs(
    Inputs[PipelineOptions, PipelineSweep, Units, PipelineLoad],
    LoadGenerator[PipelineSweep, Units, PipelineLoad],
    Cautions[PipelineSweep, Units, PipelineLoad],
):
    """Units, and loads of files and generators."""

    Options = PipelineOptions
    Sweep = PipelineSweep
    generator = GENERATED

    def machine(self, options: PipelineOptions | PipelineSweep) -> Units:
        """Read the units."""
        return read_machine(options.platform, options.folder)

    def load(self, options: PipelineOptions, machine: Units) -> PipelineLoad:
        """Read or generate the load of an experiment."""
        found = _load(options.workload, options.folder, options.load, machine)
        if options.nb_jobs is not None and options.nb_jobs < found.n_items:
            found = found.window(0, options.nb_jobs)
        check_runs_on(found, machine)
        return found

    def loads(self, sweep: PipelineSweep, machine: Units) -> list[PipelineLoad]:
        """Read the loads of a comparison: every configuration of each file, or one, and every generated set."""
        found = []
        for text in sweep.workloads:
            for read in _loads(text, sweep, machine):
                n_items = min(read.n_items, sweep.nb_jobs or read.n_items)
                load = read.window(0, n_items)
                check_runs_on(load, machine)
                found.append(load)
        return found

    def generate(
        self, sweep: PipelineSweep, machine: Units, n_items: int, *, offered_load: float, seed: int
    ) -> PipelineLoad:
        """Make a load by the sweep's model, with another utilisation."""
        model = _model(sweep.load, machine, offered_load)
        times = Times(sweep.load.shortest, seed)
        return generated_load(model, seed=seed, times=times, spread=sweep.load.spread, n_items=n_items)

    def offered_load(self, machine: Units, load: PipelineLoad) -> float | None:
        """Return the least unit time that instances need, as a share of what there is."""
        return load.offered(machine)

    def cautions(self, sweep: PipelineSweep, machine: Units, loads: Sequence[PipelineLoad]) -> list[tuple[str, str]]:
        """Return that a fixed mapping is enough for loads, where it is: policies that fuse meet all deadlines there."""
        del sweep
        from hdrl.settings.pipelines.analysis.mapping import is_solved

        solved = [load.name for load in loads if len(load.pipelines) <= MAX_PLANNED and is_solved(machine, load)]
        if not solved:
            return []
        shown = ", ".join(solved[:3]) + (", ..." if len(solved) > 3 else "")
        return [
            (
                "solved",
                f"{len(solved)} of {len(loads)} loads ({shown}) never miss a deadline under a fixed mapping (policy"
                " 'static', guaranteed): they do not show that learning is needed",
            )
        ]


class PipelineSimulator(Simulator[PipelineOptions, PipelineSweep, Units, PipelineLoad, PipelineTrace]):
    """The kernel of pipelines, and policies in Python."""

    def warm_up(self, policies: Iterable[Policy], message: Message) -> None:
        """Compile the simulator."""
        del policies
        from hdrl.settings.pipelines.simulation.policies import warm_up

        warm_up(message)

    def simulate(
        self,
        machine: Units,
        load: PipelineLoad,
        policy: Policy,
        *,
        seed: int,
        options: PipelineOptions | PipelineSweep | None = None,
        progress: Progress | None = None,
        folder: Path | None = None,
    ) -> PipelineTrace:
        """Simulate a load under a policy."""
        del options, folder
        if callable(policy):
            from hdrl.settings.pipelines.simulation.view import simulate_python

            trace = simulate_python(machine, load, policy)
        else:
            from hdrl.settings.pipelines.simulation.policies import simulate

            trace = simulate(machine, load, str(policy), seed=seed)
        if progress is not None:
            progress(load.n_items, load.n_items)
        return trace


class PipelineView(RunView):
    """Tables of instances and of runs of kernels."""

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Figures of its runs, by name."""
        from hdrl.settings.pipelines.figures import FIGURES

        return FIGURES

    def read(self, folder: Path, name: str | None = None) -> Run:
        """Return a run as pictures and reports need it."""
        from hdrl.settings.pipelines.runs import read_run

        return read_run(folder, name)


def _set(text: str, folder: Path, options: PipelineLoadOptions) -> Any:
    from hdrl.settings.pipelines.loads.readers import read_set

    graphs = None if options.graphs is None else folder / expanded(options.graphs)
    return read_set(file_of(text, folder), graphs=graphs, unit=options.times_in)


def _model(options: PipelineLoadOptions, machine: Units, utilization: float | None = None) -> Any:
    from hdrl.settings.pipelines.loads.generate import PipelineModel

    values = options.model.model_dump()
    values["periods_ms"] = tuple(values["periods_ms"])
    if utilization is not None:
        values["utilization"] = utilization
    return PipelineModel(**values, n_units=machine.n_units)


def _loads(text: str, sweep: PipelineSweep, machine: Units) -> list[PipelineLoad]:
    """Return the loads of a comparison that a workload stands for."""
    options = sweep.load
    if text == GENERATED:
        return _sets(options, machine)
    n = 1
    if sweep.configurations == "all" and not options.contexts and options.tour == "none":
        n = sum(1 for _ in _set(text, sweep.folder, options).configurations())
    if n == 1:
        return [_load(text, sweep.folder, options, machine)]
    chosen = [options.model_copy(update={"configuration": number}) for number in range(n)]
    return [_load(text, sweep.folder, one, machine) for one in chosen]


def _sets(options: PipelineLoadOptions, machine: Units) -> list[PipelineLoad]:
    """Return the sets that are generated."""
    return generated_loads(
        _model(options, machine, options.utilizations[0] if options.utilizations else None),
        seed=options.seed,
        n_sets=options.sets,
        utilizations=options.utilizations,
        shortest=options.shortest,
        spread=options.spread,
        length_us=_length_us(options),
    )


def _generated(options: PipelineLoadOptions, machine: Units) -> PipelineLoad:
    """Return all sets that are generated, one after the other."""
    loads = _sets(options, machine)
    if len(loads) == 1:
        return loads[0]
    utilizations = "/".join(f"{one:g}" for one in options.utilizations or [options.model.utilization])
    last = options.seed + options.sets - 1
    seeds = f"{options.seed}" if options.sets == 1 else f"{options.seed}..{last}"
    return in_a_row(loads, f"{GENERATED}-{utilizations}-{seeds}", Times(options.shortest, options.seed))


def _length_us(options: PipelineLoadOptions) -> int:
    return 0 if options.horizon_ms is None else round(1000 * options.horizon_ms)


def _load(text: str, folder: Path, options: PipelineLoadOptions, machine: Units) -> PipelineLoad:
    from hdrl.base.errors import OptionsError
    from hdrl.base.seeding import stream
    from hdrl.settings.pipelines.loads.releases import Context

    if text == GENERATED:
        return _generated(options, machine)
    times = Times(options.shortest, options.seed)
    found = _set(text, folder, options)
    if options.tour != "none":
        contexts = [Context(periods) for periods in found.configurations()]
        if options.tour == "shuffled":
            order = stream(options.seed, "tour").permutation(len(contexts))
            contexts = [contexts[position] for position in order.tolist()]
    elif options.contexts:
        for number, one in enumerate(options.contexts):
            if len(one.periods_ms) != len(found.pipelines):
                raise OptionsError(
                    f"{text}: load.contexts[{number}].periods_ms has {len(one.periods_ms)} periods, expected one for"
                    f" each of {len(found.pipelines)} pipelines"
                )
        contexts = [
            Context(
                tuple(round(1000 * period) for period in one.periods_ms),
                0 if one.length_ms is None else round(1000 * one.length_ms),
            )
            for one in options.contexts
        ]
    else:
        n = found.n_configurations
        if options.configuration >= n:
            raise OptionsError(f"{text}: load.configuration is {options.configuration}, expected 0 to {n - 1}")
        contexts = [Context(found.configuration(options.configuration), _length_us(options))]
    name = f"{found.name}@{options.tour}" if options.tour != "none" else ""
    return load_of(found, contexts, times=times, spread=options.spread, seed=options.seed, name=name)


SETTING = Setting(
    name="pipelines",
    title="periodic pipelines of kernels with deadlines on CPU and GPU units",
    inputs=PipelineInputs(),
    simulator=PipelineSimulator(),
    policies=PipelinePolicies(),
    measures=Measures(
        with_roles(
            METRICS,
            compared=("miss_ratio", "n_own_misses", "mean_tardiness_s", "max_lateness_s", "mean_response_s"),
            shown=(
                *("n_jobs", "n_missed", "miss_ratio", "miss_ratio_low", "miss_ratio_high", "n_unavoidable"),
                *("max_lateness_s", "mean_tardiness_s", "mean_response_s", "jitter_s", "makespan_s"),
                *("utilization_cpu", "utilization_gpu"),
            ),
            headline=("n_missed", "miss_ratio", "n_unavoidable", "max_lateness_s", "mean_response_s", "utilization"),
        ),
        compute_metrics,
    ),
    view=PipelineView(files=FILES),
    environments=MappingProxyType({"pipelines": PipelinesSpec(), "pipelines_index": PipelinesIndexSpec()}),
)
