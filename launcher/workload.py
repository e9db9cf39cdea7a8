"""``hdrl workload``: fetch, generate, convert, export and describe workloads; ``hdrl jobstat``: a number of one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from hdrl.base.errors import OptionsError, ReadError
from hdrl.launcher.completion import files_or
from hdrl.launcher.fetch import fetch
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import Float, Int, IntRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hdrl.settings.batch.platform.model import Platform
    from hdrl.settings.batch.workload import SwfLog, Workload, WorkloadStatistics


FIELDS = ("req_time", "size", "mem", "mem_bw", "interarrival", "run_time")
STATISTICS = ("min", "max", "mean", "median", "p95", "p99")
UNITS = {
    "req_time": "s",
    "run_time": "s",
    "interarrival": "s",
    "size": "cores",
    "mem": "MiB per core",
    "mem_bw": "GB/s per core",
}

platform_option = click.option(
    "--platform",
    "-p",
    metavar="FILE",
    help="Platform file, or name of a shipped platform.",
    shell_complete=files_or("platforms"),
)


@click.group(cls=CommandGroup)
def workload() -> None:
    """Fetch, generate, convert and describe workloads."""


workload.add_command(fetch)


@workload.command()
@click.argument("model", metavar="[MODEL]", type=click.Choice(["lublin"]), default="lublin")
@click.option("--jobs", "-n", "n_jobs", type=Int(), required=True, help="Number of jobs.")
@click.option("--cores", "-c", "n_cores", type=Int(), help="Cores of the machine, instead of a platform.")
@platform_option
@click.option("--kind", default="all", help="all, batch, interactive or batch+interactive.")
@click.option("--load", type=Float(), help="Offered load, reached by stretching the gaps between arrivals.")
@click.option("--seed", type=IntRange(min=0), default=0, show_default=True, help="Seed of the draws.")
@click.option("--estimates", default="tsafrir", show_default=True, help="Requested times: tsafrir or exact.")
@click.option("--users", "n_users", type=Int(), default=0, help="Number of different users (0: none are named).")
@click.option(
    "--out",
    "-o",
    required=True,
    metavar="FILE",
    help="File to write: .swf or .json, optionally with .gz.",
    shell_complete=files_or(),
)
def generate(
    model: str,
    n_jobs: int,
    n_cores: int | None,
    platform: str | None,
    kind: str,
    load: float | None,
    seed: int,
    estimates: str,
    n_users: int,
    out: str,
) -> None:
    """Generate a workload by MODEL (lublin, the default), for a platform or a number of cores."""
    del model  # there is one so far
    from hdrl.settings.batch.workload import lublin_log

    machine = _platform(platform)
    cores = n_cores if machine is None else machine.n_cores
    if cores is None or None not in (machine, n_cores):
        raise OptionsError("give either --platform or --cores")
    log = lublin_log(
        n_jobs, cores, seed=seed, kind=kind, load=load, estimates=estimates, n_users=n_users, n_executables=n_users
    )
    _write_log(log, out, machine, seed)
    click.echo(f"{out}: {log.n_rows:,} jobs for {cores:,} cores")


@workload.command()
@click.argument("source", metavar="IN", shell_complete=files_or("workloads"))
@click.argument("out", metavar="OUT", shell_complete=files_or())
@platform_option
@click.option("--jobs", "-n", "n_jobs", type=Int(), help="Number of jobs to keep.")
@click.option("--start", type=Int(), default=0, help="Number of usable jobs to skip first.")
@click.option("--seed", type=IntRange(min=0), default=0, show_default=True, help="Seed of the draws.")
@click.option("--run-time", default="trace", show_default=True, help="Run-time model.")
@click.option("--memory", default="log", show_default=True, help="Memory model.")
@click.option("--bandwidth", default="uniform", show_default=True, help="Bandwidth model.")
@click.option("--estimates", help="Estimate model; those of the log by default.")
@click.option("--walltime", help="'requested': jobs are killed after their requested time.")
@click.option("--walltime-factor", type=Float(), default=1.0, show_default=True, help="Factor on that walltime.")
@click.option("--compatibility", help="'hdeeprm-0.3.1': make jobs of a log exactly as it does.")
@click.option(
    "--batsim", type=click.Choice(["4", "5"]), default="4", show_default=True, help="Dialect of the JSON to write."
)
@click.option("--custom", is_flag=True, help="The JSON is a custom workload of HDeepRM: its req_time sets the work.")
def convert(source: str, out: str, platform: str | None, batsim: str, **choices: Any) -> None:
    """Convert the workload IN to the format of OUT. Its name ends in .swf or .json, or in .swf.gz or .json.gz."""
    from hdrl.settings.batch.workload import (
        file_format,
        read_workload,
        swf_from_workload,
        write_batsim5_json,
        write_batsim_json,
        write_swf,
    )

    to_log = file_format(out) == "swf"
    machine = _platform(platform)
    jobs = read_workload(source, machine, **choices)
    if to_log:
        write_swf(swf_from_workload(jobs, _needed(machine, out)), out)
    else:
        (write_batsim5_json if batsim == "5" else write_batsim_json)(jobs, out, platform=machine)
    click.echo(f"{out}: {jobs.n_jobs:,} jobs{_dropped(jobs)}")


@workload.command()
@click.argument("file", shell_complete=files_or("workloads"))
@click.argument("field", type=click.Choice(FIELDS), required=False)
@click.argument("statistic", type=click.Choice(STATISTICS), required=False)
@platform_option
@click.option("--jobs", "-n", "n_jobs", type=Int(), help="Number of jobs to look at.")
@click.option(
    "--setting",
    metavar="NAME",
    help="Setting whose load FILE is, if not batch jobs; needs --platform.",
    shell_complete=files_or("settings"),
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Option of the load, as in compare.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def stat(
    file: str,
    field: str | None,
    statistic: str | None,
    platform: str | None,
    n_jobs: int | None,
    setting: str | None,
    overrides: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Describe the workload FILE. With FIELD and STATISTIC, print that number alone, as hdeeprm-jobstat does.

    With --setting, FILE is any workload of that setting that hdrl compare accepts.
    """
    if setting not in (None, "batch"):
        if platform is None:
            raise OptionsError(f"--setting {setting} needs --platform: its offered load depends on the machine")
        if field is not None or n_jobs is not None:
            raise OptionsError(f"--setting {setting} takes neither FIELD nor --jobs")
        _describe_load(file, setting, platform, overrides, as_json=as_json)
        return
    if overrides:
        raise OptionsError("--set has no effect on batch jobs here; name another --setting")
    from hdrl.settings.batch.workload import (
        find_workload,
        read_swf,
        read_workload,
        workload_from_swf,
        workload_statistics,
    )

    if (field is None) != (statistic is None):
        raise OptionsError(f"a statistic is needed after {field}: one of {', '.join(STATISTICS)}")
    machine = _platform(platform)
    if machine is None and _form(file) == "swf":
        # What is shown without a platform does not depend on its speed.
        log = read_swf(find_workload(file))
        jobs = workload_from_swf(log, 1.0, n_jobs=n_jobs)
        if log.n_dependent and field is None:
            click.echo(f"{jobs.name}: {log.dependencies()}", err=True)
    else:
        jobs = read_workload(file, machine, n_jobs=n_jobs)
    numbers = workload_statistics(jobs, machine)
    if field is not None and statistic is not None:
        click.echo(_plain(numbers.number(field, statistic)))
    elif as_json:
        click.echo(json.dumps({"name": jobs.name, **asdict(numbers), "left_out": jobs.n_dropped}, indent=2))
    else:
        _print_table(jobs, numbers, machine)


def _form(file: str) -> str:
    from hdrl.settings.batch.workload import file_format, find_workload

    try:
        return file_format(find_workload(file))
    except ReadError as error:
        raise OptionsError(f"{error}; if it is a load of another setting, name that by --setting") from None


def _describe_load(file: str, setting: str, platform: str, overrides: Sequence[str], *, as_json: bool) -> None:
    """Print what a comparison of a setting reads of a load; as JSON, an object in a line for each load."""
    from hdrl.experiment.run.inputs import make_sweep
    from hdrl.launcher.compare import overrides_of
    from hdrl.setting import Cautions, find_setting

    found = find_setting(setting)
    candidate = found.policies.names()[0]
    keys = {"candidates": [candidate], "platform": platform, "workloads": [file], **overrides_of(overrides)}
    sweep = make_sweep(keys, where="stat", setting=setting)
    machine = found.inputs.machine(sweep)
    loads = found.inputs.loads(sweep, machine)
    for load in loads:
        offered = found.inputs.offered_load(machine, load)
        if as_json:
            said = {"name": load.name, "n_items": load.n_items, "offered_load": offered, "left_out": load.n_dropped}
            click.echo(json.dumps(said, default=dict))
            continue
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in load.n_dropped.items())
        click.echo(f"{load.name}: {load.n_items:,} items{f'; left out: {left_out}' if left_out else ''}")
        if offered is not None:
            click.echo(f"offered load on {platform}: {offered:.3g}")
    if isinstance(found.inputs, Cautions):
        for _, sentence in found.inputs.cautions(sweep, machine, loads):
            click.echo(sentence, err=as_json)


def _platform(name: str | None) -> Platform | None:
    if name is None:
        return None
    from hdrl.settings.batch.platform import read_platform

    return read_platform(name)


def _needed(machine: Platform | None, out: str) -> Platform:
    if machine is None:
        raise OptionsError(f"{out}: --platform is needed to turn work into seconds, or seconds into work")
    return machine


def _write_log(log: SwfLog, out: str, machine: Platform | None, seed: int) -> None:
    from hdrl.settings.batch.workload import file_format, workload_from_swf, write_batsim_json, write_swf

    if file_format(out) == "swf":
        write_swf(log, out)
        return
    platform = _needed(machine, out)
    write_batsim_json(workload_from_swf(log, platform, seed=seed), out, platform=platform)


def _dropped(jobs: Workload) -> str:
    if not jobs.n_dropped:
        return ""
    return f"; left out: {', '.join(f'{count:,} with {reason}' for reason, count in jobs.n_dropped.items())}"


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _print_table(jobs: Workload, numbers: WorkloadStatistics, machine: Platform | None) -> None:
    from rich.table import Table

    from hdrl.launcher.bars import print_table

    table = Table(title=f"{jobs.name}: {numbers.n_jobs:,} jobs in {numbers.span_s:,.0f} s{_dropped(jobs)}")
    table.add_column("field")
    for name in ("unit", *STATISTICS):
        table.add_column(name, justify="right")
    for name, column in numbers.columns.items():
        table.add_row(name, UNITS[name], *(f"{getattr(column, statistic):,.6g}" for statistic in STATISTICS))
    print_table(table)
    if machine is not None and numbers.offered_load is not None:
        click.echo(f"offered load on {machine.name} ({machine.n_cores:,} cores): {numbers.offered_load:.3f}")


@workload.command("export-swf")
@click.argument("run", shell_complete=files_or())
@click.option(
    "--out",
    "-o",
    required=True,
    metavar="FILE",
    help="File to write: .swf, optionally with .gz.",
    shell_complete=files_or(),
)
@click.option(
    "--workload", metavar="FILE", help="Workload of the run, if it has moved.", shell_complete=files_or("workloads")
)
@click.option("--whole-seconds", is_flag=True, help="Round all dates, for programs that read only whole seconds.")
def export_swf(run: str, out: str, workload: str | None, *, whole_seconds: bool) -> None:
    """Write the schedule of the run folder RUN as a log. It is in the Standard Workload Format."""
    from hdrl.settings.batch.report.export import export_swf as export

    if not out.lower().endswith((".swf", ".swf.gz")):
        raise OptionsError(f"{out}: expected a name that ends in .swf or .swf.gz")
    log = export(run, out, workload=workload, whole_seconds=whole_seconds)
    click.echo(f"{out}: {log.n_rows:,} jobs")


@click.command()
@click.argument("workload", shell_complete=files_or("workloads"))
@click.argument("field", type=click.Choice(FIELDS))
@click.argument("statistic", type=click.Choice(STATISTICS))
@platform_option
@click.option("--jobs", "-n", "n_jobs", type=Int(), help="Number of jobs to look at.")
@click.pass_context
def jobstat(
    ctx: click.Context, workload: str, field: str, statistic: str, platform: str | None, n_jobs: int | None
) -> None:
    """Print a STATISTIC of a FIELD over the jobs of a WORKLOAD: a file in Batsim's JSON or SWF, or a shipped one."""
    ctx.invoke(stat, file=workload, field=field, statistic=statistic, platform=platform, n_jobs=n_jobs)
