"""Batch jobs on heterogeneous clusters: what makes a setting of them, in its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from hdrl.metrics import with_roles
from hdrl.setting import Cautions, Inputs, LoadGenerator, Measures, RunView, Setting, Simulator
from hdrl.settings.batch import options as batch_options
from hdrl.settings.batch.environments import JobIndexSpec, JobPickSpec, PolicyPairSpec
from hdrl.settings.batch.metrics import METRICS, compute_metrics
from hdrl.settings.batch.named_policies import BatchPolicies
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulator_arguments import simulator_arguments
from hdrl.settings.batch.simulators import SIMULATORS, floor_of
from hdrl.settings.batch.sweep import BatchSweep
from hdrl.settings.batch.workload.model import Workload
from hdrl.trace.files import TraceFile

if TYPE_CHECKING:
    from hdrl.figures.figure import Figure, Run
    from hdrl.setting import Message, Policy, Progress
    from hdrl.settings.batch.policies.simulation import Policy as BatchPolicy

POLICIES = BatchPolicies()


class BatchInputs(
    Inputs[batch_options.Options, BatchSweep, Platform, Workload],
    LoadGenerator[BatchSweep, Platform, Workload],
    Cautions[BatchSweep, Platform, Workload],
):
    """Platforms and workloads."""

    Options = batch_options.Options
    Sweep = BatchSweep
    generator = "lublin"

    def shipped_machines(self) -> Mapping[str, str]:
        """Return the shipped platforms, and how many cores they have."""
        from hdrl.settings.batch.platform.reader import read_platform, shipped_platforms

        return {name: f"{read_platform(name).n_cores:,} cores" for name in shipped_platforms()}

    def shipped_loads(self) -> Mapping[str, str]:
        """Return the shipped workloads."""
        from hdrl.settings.batch.workload.read import shipped_workloads

        return dict.fromkeys(shipped_workloads(), "")

    def machine(self, options: batch_options.Options | BatchSweep) -> Platform:
        """Read a platform."""
        from hdrl.settings.batch.inputs import platform_of

        return platform_of(options)

    def load(self, options: batch_options.Options, machine: Platform) -> Workload:
        """Read a workload."""
        from hdrl.settings.batch.inputs import workload_of

        return workload_of(options, machine)

    def loads(self, sweep: BatchSweep, machine: Platform) -> list[Workload]:
        """Read the workloads of a comparison."""
        from hdrl.settings.batch.inputs import workloads_of

        return workloads_of(sweep, machine)

    def generate(
        self, sweep: BatchSweep, machine: Platform, n_items: int, *, offered_load: float, seed: int
    ) -> Workload:
        """Make a workload by the Lublin model."""
        from hdrl.settings.batch.inputs import generated_workload

        return generated_workload(sweep, machine, n_items, load=offered_load, seed=seed)

    def offered_load(self, machine: Platform, load: Workload) -> float | None:
        """Return the offered load of a workload."""
        from hdrl.settings.batch.workload.statistics import offered_load

        return offered_load(load, machine)

    def exact_estimates(self, sweep: BatchSweep, loads: Sequence[Workload]) -> list[str]:
        """Return the names of the workloads whose requested times are the run times.

        That is also so where a log has no requested times.
        """
        from hdrl.settings.batch.policies.clairvoyance import EXACT_ESTIMATES, has_exact_estimates

        names = [workload.name for workload in loads if has_exact_estimates(workload)]
        if sweep.generated_estimates == EXACT_ESTIMATES:
            names += self._generated(sweep)
        return names

    def _generated(self, sweep: BatchSweep) -> list[str]:
        """Return the names of the loads that a comparison generates."""
        return [f"{self.generator}@{load:g}" for load in sweep.loads]

    def cautions(self, sweep: BatchSweep, machine: Platform, loads: Sequence[Workload]) -> list[tuple[str, str]]:
        """Return cautions about machines of another size, predictions without users, and known logs."""
        from hdrl.options.sweep import strip_folder
        from hdrl.settings.batch.predict.evaluation import has_users

        floor = floor_of(sweep.simulator)
        known = [("floor", floor), *_of_logs(sweep, machine)] if floor else list(_of_logs(sweep, machine))
        known += [
            (
                "trained-on",
                f"{strip_folder(name)} was trained on the first {share:.0%} of {load.name}: windows from "
                f"{sweep.range[0]:.0%} on may hold jobs that it was trained on",
            )
            for name in (text.rpartition("=")[2] for text in sweep.candidates)
            for load in loads
            if (share := POLICIES.trained_on(sweep.resolve_policy(name)).get(load.name, 0.0)) > sweep.range[0]
        ]
        predicting = [text for text in sweep.candidates if POLICIES.predicts(text)]
        if not predicting:
            return known
        return known + [
            (
                "users",
                f"{name} names no users: {strip_folder(predicting[0])} predicts its run times by requests and sizes "
                "alone",
            )
            for name in (*(load.name for load in loads if not has_users(load)), *self._generated(sweep))
        ]


class BatchSimulator(Simulator[batch_options.Options, BatchSweep, Platform, Workload, BatchTrace]):
    """The kernel, and the simulators outside."""

    def warm_up(self, policies: Iterable[Policy], message: Message) -> None:
        """Compile the simulator, and conservative backfilling if a policy needs it."""
        from hdrl.settings.batch.kernel import warm_up, warm_up_conservative
        from hdrl.settings.batch.policies import is_conservative

        warm_up(message)
        if any(is_conservative(policy) for policy in policies):
            warm_up_conservative(message)

    def simulate(
        self,
        machine: Platform,
        load: Workload,
        policy: Policy,
        *,
        seed: int,
        options: batch_options.Options | BatchSweep | None = None,
        progress: Progress | None = None,
        folder: Path | None = None,
    ) -> BatchTrace:
        """Simulate jobs under a policy."""
        from hdrl.settings.batch.policies import simulate

        chosen: dict[str, Any] = {
            "energy": True if options is None else bool(options.energy),
            **simulator_arguments(options, machine, folder),
        }
        if isinstance(options, batch_options.Options):
            chosen |= {"compatibility": options.compatibility, "progress": progress}
        return simulate(machine, load, cast("str | BatchPolicy", policy), seed=seed, **chosen)

    def max_simulations_per_host(self, options: batch_options.Options | BatchSweep) -> int | None:
        """Return the largest number of simulations on a host: of real Slurms one, for its clock is that of the host."""
        return 1 if options.simulator == "slurm" else None


class BatchView(RunView):
    """Batsim's files."""

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Figures of its runs, by name."""
        from hdrl.settings.batch.figures import FIGURES

        return FIGURES

    def read(self, folder: Path, name: str | None = None) -> Run:
        """Read a run folder for pictures and reports."""
        from hdrl.settings.batch.figures import read

        return read(folder, name)


def _of_logs(sweep: BatchSweep, machine: Platform) -> Iterator[tuple[str, str]]:
    """Return cautions about logs of another machine, with dependencies, or with requests it cannot meet."""
    from hdrl.settings.batch.workload import file_format, find_workload, read_swf

    for text in sweep.workloads:
        path = find_workload(sweep.file_or_name(text))
        if file_format(path) != "swf":
            continue
        log = read_swf(path)
        if log.columns is not None and machine.site is None:
            yield (
                "site-rules",
                f"{path.name} describes requests of jobs to a site ({log.columns.path.name}), but {machine.name} has "
                "no site rules, or they do not count: any job may start on any node",
            )
        words = log.header.get("MaxProcs", "").split()
        n_procs = int(words[0]) if words and words[0].isdecimal() else 0
        if n_procs not in (0, machine.n_cores):
            yield (
                "machine-size",
                f"{path.name} is the log of a machine with {n_procs:,} processors (MaxProcs), and {machine.name} has "
                f"{machine.n_cores:,}: the load is not the one that was recorded",
            )
        followed = log.dependencies(think_times=sweep.workload.think_times, has_rules=machine.site is not None)
        if followed:
            yield ("dependencies", f"{path.name}: {followed}")


def _write_batsim_files(trace: BatchTrace, folder: Path) -> None:
    from hdrl.settings.batch.simulation.outputs import write_batsim_files

    name = str(trace.info.get("simulator"))
    if name not in SIMULATORS or not SIMULATORS[name].writes_files:
        write_batsim_files(trace, folder)


def _write_overutilizations(trace: BatchTrace, folder: Path) -> None:
    from hdrl.settings.batch.simulation.outputs import write_overutilizations

    write_overutilizations(trace, folder / "overutilizations.json")


def _write_site_files(trace: BatchTrace, folder: Path) -> None:
    if trace.site is not None:
        from hdrl.settings.batch.site_rules.metrics import write_site_files

        write_site_files(trace, folder)


def _write_schedule_trace(trace: BatchTrace, folder: Path) -> None:
    from hdrl.base.files import atomic_write
    from hdrl.settings.batch.simulation.paje import format_schedule_trace

    with atomic_write(folder / "out_schedule.trace") as out:
        out.write(format_schedule_trace(trace))


def _write_hosts(trace: BatchTrace, folder: Path) -> None:
    from hdrl.base.files import atomic_write
    from hdrl.settings.batch.simulation.hosts import format_hosts, hosts_arrays

    with atomic_write(folder / "out_hosts.csv") as out:
        out.write(format_hosts(hosts_arrays(trace)))


def _write_platform(trace: BatchTrace, folder: Path) -> None:
    from hdrl.settings.batch.platform.simgrid import write_simgrid

    if not (folder / "platform.xml").exists():  # a simulator outside the kernel was given one
        write_simgrid(trace.platform, folder / "platform.xml")


def _write_workload(trace: BatchTrace, folder: Path) -> None:
    from hdrl.settings.batch.workload import write_batsim_json

    if not (folder / "workload.json").exists():
        write_batsim_json(trace.workload, folder / "workload.json", platform=trace.platform)


FILES = (
    TraceFile(
        (
            *("out_jobs.csv", "out_schedule.csv", "out_machine_states.csv"),
            *("out_pstate_changes.csv", "out_consumed_energy.csv"),
        ),
        _write_batsim_files,
        "Batsim's files",
    ),
    TraceFile(("overutilizations.json",), _write_overutilizations, "HDeepRM's log of what was short"),
    TraceFile(
        ("site_jobs.csv", "site_metrics.json"),
        _write_site_files,
        "what the rules of a site made of each job, and waits by group",
        is_of_few=True,
    ),
    TraceFile(("out_schedule.trace",), _write_schedule_trace, "Batsim's schedule in the Paje format", is_extra=True),
    TraceFile(("out_hosts.csv",), _write_hosts, "what each host did: times, joules, switches", is_extra=True),
    TraceFile(("platform.xml",), _write_platform, "the platform for SimGrid", is_extra=True),
    TraceFile(("workload.json",), _write_workload, "the jobs in Batsim's JSON", is_extra=True),
)

SETTING = Setting(
    name="batch",
    title="batch jobs on heterogeneous clusters, as Batsim simulates them",
    inputs=BatchInputs(),
    simulator=BatchSimulator(),
    policies=POLICIES,
    measures=Measures(
        with_roles(
            METRICS,
            compared=(
                *("mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s"),
                *("utilization", "energy_j"),
            ),
            shown=(
                *("n_jobs", "n_finished", "makespan_s", "mean_wait_s", "p95_wait_s", "max_wait_s"),
                *("mean_turnaround_s", "mean_slowdown", "mean_bounded_slowdown", "utilization", "energy_j"),
                *("energy_delay_product_js", "n_bandwidth_overcommitments"),
                *("n_failed", "n_walltime_reached", "n_killed", "n_rejected", "n_unfinished", "n_not_started"),
            ),
            headline=(
                *("n_finished", "mean_bounded_slowdown", "mean_wait_s", "p95_wait_s", "max_wait_s", "makespan_s"),
                *("utilization", "energy_j"),
            ),
        ),
        compute_metrics,
    ),
    view=BatchView(files=FILES),
    environments=MappingProxyType(
        {"policy_pair": PolicyPairSpec(), "job_pick": JobPickSpec(), "job_index": JobIndexSpec()}
    ),
)
