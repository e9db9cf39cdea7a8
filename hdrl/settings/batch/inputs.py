"""The platforms and workloads that options and sweeps of batch jobs ask for."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from hdrl.base.errors import HdrlError, OptionsError, UnknownName, suggest
from hdrl.base.pyfiles import CPP_SUFFIX, is_policy_file, split_policy_file
from hdrl.settings.batch.node_power import NodePower
from hdrl.settings.batch.options import Options, WorkloadOptions
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import pstate_rules
from hdrl.settings.batch.platform.reader import read_platform
from hdrl.settings.batch.policies.choices import SITE_POLICIES
from hdrl.settings.batch.simulators import SIMULATORS
from hdrl.settings.batch.sweep import BatchSweep
from hdrl.settings.batch.workload.fit import check_fits
from hdrl.settings.batch.workload.lublin import lublin_workload
from hdrl.settings.batch.workload.model import Workload
from hdrl.settings.batch.workload.read import read_workload, shipped_workloads


def platform_of(options: Options | BatchSweep) -> Platform:
    """Read the platform of an experiment or of a comparison."""
    if isinstance(options, BatchSweep):
        rules = pstate_rules(options.contention, node_power=_node_power(options))
        platform = _ruled(read_platform(options.file_or_name(options.platform), rules=rules), options)
        if options.simulator == "slurm":
            _check_played_by_slurm(options)
            return platform
        if platform.site is None and not _needs_site(options):
            return platform
        if options.simulator == "exact":
            _refuse_site(options, platform)
        _check_played_by_site(options, platform)
        return _with_rules(platform)
    rules = pstate_rules(options.contention, compatibility=options.compatibility, node_power=_node_power(options))
    platform = read_platform(options.file_or_name(options.platform_file_path), rules=rules)
    if options.nb_resources is not None and options.nb_resources != platform.n_cores:
        raise OptionsError(
            f"{options.where}: nb_resources is {options.nb_resources}, but platform {platform.name!r} has "
            f"{platform.n_cores} cores"
        )
    platform = _ruled(platform, options)
    if not options.workload.think_times:
        return platform
    if options.simulator not in ("embedded", "site"):
        raise OptionsError(
            f"{options.where}: workload.think_times is true, which only simulator 'site' follows; found simulator "
            f"{options.simulator!r}"
        )
    return _with_rules(platform)


def _ruled(platform: Platform, options: Options | BatchSweep) -> Platform:
    """Return the platform with the rules of its site, unless they are not to count."""
    return platform if options.site_rules else replace(platform, site=None)


def _needs_site(sweep: BatchSweep) -> bool:
    """Tell whether a candidate or the jobs need the simulator of sites: then all are played there, so they compare."""
    return sweep.workload.think_times or any(name in SITE_POLICIES for name in _candidates(sweep))


def _candidates(sweep: BatchSweep) -> list[str]:
    """Return the policies and files of a sweep, without the names that the user gave them."""
    return [text.rpartition("=")[2] for text in (*sweep.candidates, sweep.baseline)]


def _refuse_site(sweep: BatchSweep, platform: Platform) -> NoReturn:
    """Raise OptionsError: the exact engine does not know the rules of a site, nor what needs them."""
    if platform.site is not None:
        why = f"{platform.name!r} has the rules of a site; --set site_rules=false simulates without them"
    elif sweep.workload.think_times:
        why = "workload.think_times is true"
    else:
        why = f"{next(name for name in _candidates(sweep) if name in SITE_POLICIES)!r} needs the simulator of sites"
    raise OptionsError(f"{sweep.where}: simulator is 'exact', expected 'embedded': {why}")


def _check_played_by_site(sweep: BatchSweep, platform: Platform) -> None:
    """Refuse candidates that the simulator of sites does not play, before anything is simulated."""
    for name in _candidates(sweep):
        is_predictor = is_policy_file(name) and split_policy_file(name)[1].startswith("@")
        if is_predictor or name.endswith(CPP_SUFFIX) or _is_not_played_by_site(name):
            why = "another candidate needs it" if platform.site is None else f"{platform.name!r} has rules of a site"
            why = "workload.think_times needs it" if sweep.workload.think_times else why
            raise OptionsError(
                f"{sweep.where}: simulator 'site' does not play {name!r} ({why}): it plays 'slurm', 'multifactor' and "
                "policies such as 'sjf+easy', 'sjf+easy@geo', 'es-generalist' and 'my.py+easy'; --set site_rules=false "
                "plays all kinds of policies without the rules"
            )


def _check_played_by_slurm(sweep: BatchSweep) -> None:
    """Refuse candidates that a real Slurm cannot follow, before anything is simulated.

    Raises
    ------
    OptionsError
        If there is one.
    """
    for name in _candidates(sweep):
        if is_policy_file(name) or name.endswith((CPP_SUFFIX, ".pt", ".safetensors")):
            raise OptionsError(
                f"{sweep.where}: simulator 'slurm' does not play {name!r}: it plays 'slurm', and named policies that "
                "order jobs, for instance 'sjf@geo' or 'es-generalist'"
            )
        with contextlib.suppress(UnknownName):  # a group, or no policy: others say so
            SIMULATORS["slurm"].deployed(name)


def _is_not_played_by_site(name: str) -> bool:
    """Tell whether a policy needs what the simulator of sites does not know; of models, their environments say so."""
    from hdrl.settings.batch.policies.pairs import read_pair
    from hdrl.settings.batch.site_rules.simulator import plays

    try:
        return not plays(read_pair(name).rule)
    except HdrlError:  # a group, or no policy: others say so
        return False


def _with_rules(platform: Platform) -> Platform:
    """Return a machine with the rules of its site, or with those of `with_plain_rules` if it has none."""
    if platform.site is not None:
        return platform
    from hdrl.settings.batch.site_rules.simulator import with_plain_rules

    return with_plain_rules(platform)


def _node_power(options: Options | BatchSweep) -> NodePower | None:
    """Return the cost of switching nodes off, ``None`` if they are always on."""
    return None if options.node_power is None else NodePower.read(options.node_power.model_dump())


def workload_of(options: Options, platform: Platform) -> Workload:
    """Read or generate the workload of an experiment, and check that its jobs can run."""
    choices = options.workload
    try:
        if choices.custom is not None:
            # All of it: nb_jobs says how many jobs to make of a log.
            workload = read_workload(_file_of(options, "workload.custom", choices.custom), platform, custom=True)
        else:
            workload = read_workload(
                _file_of(options, "workload_file_path", options.workload_file_path),
                platform,
                n_jobs=options.nb_jobs,
                start=choices.start,
                compatibility=options.compatibility,
                **_models(choices),
                shift=choices.shift,
                seed=options.seed,
            )
    except UnknownName as error:
        raise OptionsError(f"{options.where}: workload: {error}") from None
    if options.simulator == "embedded":
        workload.check_simulated()
    return check_fits(workload, platform, oversized=choices.oversized)


def workloads_of(sweep: BatchSweep, platform: Platform) -> list[Workload]:
    """Read the workloads of a comparison, and check that the platform can run them."""
    models, oversized = _models(sweep.workload), sweep.workload.oversized
    files = [sweep.file_or_name(text) for text in sweep.workloads]
    read = [read_workload(file, platform, n_jobs=sweep.nb_jobs, **models, seed=sweep.seed) for file in files]
    for one in read if sweep.simulator != "exact" else ():
        one.check_simulated()
    return [check_fits(one, platform, oversized=oversized) for one in read]


def _models(choices: WorkloadOptions) -> dict[str, Any]:
    """Return the models by which jobs are made of a log."""
    names = ("run_time", "memory", "bandwidth", "estimates", "walltime", "walltime_factor")
    models = {name: getattr(choices, name) for name in names}
    return {**models, "think_times": True} if choices.think_times else models


def generated_workload(sweep: BatchSweep, platform: Platform, n_jobs: int, *, load: float, seed: int) -> Workload:
    """Make a workload by the Lublin model."""
    choices = sweep.workload
    generated = lublin_workload(
        platform,
        n_jobs,
        seed=seed,
        load=load,
        estimates=sweep.generated_estimates,
        walltime=choices.walltime,
        bandwidth=choices.bandwidth,
    )
    return check_fits(generated, platform, oversized=choices.oversized)


def _file_of(options: Options, key: str, text: str) -> Path:
    """Return the file of a workload, or of the shipped workload of that name."""
    named = options.file_or_name(text)
    if isinstance(named, Path):
        return named
    shipped = shipped_workloads()
    if named not in shipped:
        raise OptionsError(
            f"{options.where}: {key} is {text!r}: no such file, and no shipped workload of that name; "
            f"{suggest(text, shipped)}"
        )
    return shipped[named]
