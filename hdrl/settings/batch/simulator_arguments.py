"""Simulators of batch jobs as options and sweeps ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hdrl.settings.batch.options import Options
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulators import BatsimSettings, SlurmSettings
from hdrl.settings.batch.sweep import BatchSweep


def simulator_arguments(
    run_options: Options | BatchSweep | None, platform: Platform, folder: Path | None = None
) -> dict[str, Any]:
    """Return the arguments of `policies.simulate` with the simulator and its settings; none of the embedded one.

    - ``platform``: the machine that the options describe.
    - ``folder``: the folder for the files of the simulator; ``None``: they are discarded.
    """
    if run_options is None or run_options.simulator == "embedded":
        return {}
    known: dict[str, Any] = {"simulator": run_options.simulator, "folder": folder}
    if run_options.simulator == "slurm":
        known["slurm"] = _slurm(run_options)
    elif not platform.clusters:
        text = run_options.platform_file_path if isinstance(run_options, Options) else run_options.platform
        known["platform_file"] = run_options.path_of(text)
    if isinstance(run_options, Options) and run_options.simulator == "batsim":
        known["batsim"] = _batsim(run_options)
    return known


def _batsim(options: Options) -> BatsimSettings:
    """Return the settings of Batsim."""
    chosen = options.batsim
    return BatsimSettings(
        endpoint=chosen.endpoint,
        executable=_command(options, chosen.executable),
        arguments=tuple(chosen.arguments),
        timeout_s=chosen.timeout_s,
        wait_for=chosen.wait_for,
        folder=options.path_of(chosen.folder) if chosen.folder is not None else None,
        protocol=chosen.protocol,
    )


def _slurm(run_options: Options | BatchSweep) -> SlurmSettings:
    """Return the settings of a real Slurm."""
    conf = None if run_options.slurm.conf is None else run_options.path_of(run_options.slurm.conf)
    return SlurmSettings(**(run_options.slurm.model_dump() | {"conf": conf}))


def _command(options: Options, text: str) -> str:
    """Return a command as it is looked for: a name on PATH, or a path that starts from the options file."""
    return str(options.path_of(text).absolute()) if "/" in text else text
