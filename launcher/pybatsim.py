"""``hdrl pybatsim``: simulate under a scheduler of PyBatsim, in this process."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hdrl.base.errors import OptionsError
from hdrl.base.files import write_json
from hdrl.launcher.completion import files_or
from hdrl.launcher.trust import trust_option

if TYPE_CHECKING:
    from hdrl.settings.batch.options import Options
    from hdrl.settings.batch.simulation import BatchTrace

WALL_CLOCK = ("scheduling_time_s", "simulation_time_s")
SHOWN = ("n_jobs", "n_finished", "makespan_s", "mean_wait_s", "mean_bounded_slowdown", "utilization", "energy_j")


@click.command()
@click.argument("scheduler", shell_complete=files_or())
@click.argument("options_file", metavar="OPTIONS", shell_complete=files_or())
@click.option("-o", "--options", "wishes", default="{}", metavar="JSON", help="The scheduler's options, an object.")
@click.option("--simulator", help="embedded or exact, instead of the one in the options.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change an option, as in hdrl-launch.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("--quiet", is_flag=True, help="Only print the folder of the results.")
@trust_option
def pybatsim(
    scheduler: str,
    options_file: str,
    wishes: str,
    simulator: str | None,
    overrides: tuple[str, ...],
    out: Path,
    *,
    quiet: bool,
    trust: bool,
) -> None:
    """Run the experiment OPTIONS with SCHEDULER in place of its policy.

    SCHEDULER is one that PyBatsim brings (easyBackfill, schedFcfs, ...), or a Python file with one.
    """
    from hdrl.batsim.pybatsim import run_scheduler
    from hdrl.experiment.run.inputs import read_options
    from hdrl.settings.batch.inputs import platform_of, workload_of
    from hdrl.settings.batch.kernel import warm_up
    from hdrl.settings.batch.options import Options

    options = read_options(options_file, overrides=overrides, trust=trust or None)
    if not isinstance(options, Options):
        raise OptionsError(f"{options_file}: is of the setting {options.setting_name}; PyBatsim schedules batch jobs")
    requested = _read_requests(wishes)
    platform = platform_of(options)
    workload = workload_of(options, platform)
    file = options.path_of(options.platform_file_path)
    warm_up(lambda text: None if quiet else click.echo(text, err=True))
    trace = run_scheduler(
        scheduler,
        platform,
        workload,
        simulator=simulator or options.simulator,
        options=requested,
        energy=options.energy,
        platform_file=file if file.suffix.lower() == ".xml" else None,
    )
    metrics = _write(trace, options, out)
    if quiet:
        click.echo(str(out))
        return
    for name in SHOWN:
        click.echo(f"{name} {metrics[name]:.6g}")
    click.echo(f"results in {out}")


def _read_requests(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"--options is not JSON ({error}): {text!r}") from None
    if not isinstance(value, dict):
        raise OptionsError(f"--options is {text!r}, expected an object")
    return value


def _write(trace: BatchTrace, options: Options, out: Path) -> dict[str, float]:
    """Write the results, the same ones whenever the run is repeated."""
    from hdrl.experiment.run.folder import new_folder
    from hdrl.settings.batch.metrics import compute_metrics
    from hdrl.settings.batch.simulation import write_batsim_files

    repeatable = {name: value for name, value in trace.info.items() if name not in WALL_CLOCK}
    metrics = {name: float(value) for name, value in compute_metrics(trace).items()}
    with new_folder(out) as folder:
        write_batsim_files(dataclasses.replace(trace, info=repeatable), folder)
        finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        write_json(folder / "metrics.json", finite)
        write_json(folder / "options.resolved.json", options.portable())
    return metrics
