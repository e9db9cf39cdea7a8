"""Simulators of batch jobs as options and sweeps ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hdrl.settings.batch.options import Options
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulators import BatsimSettings, SlurmSettings
from hdrl.settings.batch.sweep import BatchSweep


def simulator_arguments(
    asked: Options | BatchSweep | None, platform: Platform, folder: Path | None = None
) -> dict[str, Any]:
    """Return the arguments of `policies.simulate` with the simulator and its settings; none of the embedded one.

    - ``platform``: the machine that the options describe.
    - ``folder``: the folder for the files of the simulator; ``None``: they are discarded.
    """
    if asked is None or asked.simulator == "embedded":
        return {}
    known: dict[str, Any] = {"simulator": asked.simulator, "folder": folder}
    if asked.simulator == "slurm":
        known["slurm"] = _slurm(asked)
    if isinstance(asked, Options):
        known["platform_file"] = None if platform.clusters else asked.path_of(asked.platform_file_path)
        if asked.simulator == "batsim":
            known["batsim"] = _batsim(asked)
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


def _slurm(asked: Options | BatchSweep) -> SlurmSettings:
    """Return the settings of a real Slurm."""
    conf = None if asked.slurm.conf is None else asked.path_of(asked.slurm.conf)
    return SlurmSettings(**(asked.slurm.model_dump() | {"conf": conf}))


def _command(options: Options, text: str) -> str:
    """Return a command as it is looked for: a name on PATH, or a path that starts from the options file."""
    return str(options.path_of(text).absolute()) if "/" in text else text
