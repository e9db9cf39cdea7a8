"""Policy pairs: which job next, and on which cores; HDeepRM's names in all their versions.

A pair is written ``<job selection>-<core selection>``. The scheduler takes the first job by the job selection and
gives it cores by the core selection, one job after the other, until the next one does not fit (head-of-line
blocking: nothing overtakes).

==============  ==================================================================================
job selection   the next job is
==============  ==================================================================================
``random``      any
``first``       the one that was submitted first
``shortest``    the one with the shortest requested time
``smallest``    the one with the fewest cores
``low_mem``     the one with the least memory per core
``low_mem_bw``  the one with the least memory bandwidth per core
==============  ==================================================================================

===============  =================================================================================
core selection   the next core is a free one with enough memory in its node,
===============  =================================================================================
``random``       any
``high_gflops``  with the highest speed
``high_cores``   in the processor with the most free cores
``high_mem``     in the node with the most free memory
``high_mem_bw``  in the processor with the most free memory bandwidth
``low_power``    with the lowest power
===============  =================================================================================

Ties go to the job that came first and to the lowest core id. (In the compatibility mode ``high_cores`` prefers the
most *busy* cores, as HDeepRM does against its documentation.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hdrl.errors import UnknownName
from hdrl.options import model as options

JOB_SELECTIONS: dict[str, int] = {name: number for number, name in enumerate(options.JOB_SELECTIONS)}
"""Number of each job selection in the kernel (``JOB_*`` in `hdrl.kernel.codes`)."""

CORE_SELECTIONS: dict[str, int] = {name: number for number, name in enumerate(options.CORE_SELECTIONS)}
"""Number of each core selection in the kernel (``CORE_*`` in `hdrl.kernel.codes`)."""

OLDER_CORE_SELECTIONS = {"high_flops": "high_gflops", "low_energy": "low_power"}
"""Names of HDeepRM 0.1.0 and of some rows of 0.3.0, and what they are called today."""

VOID = "void"
"""The action that starts nothing."""


@dataclass(frozen=True, slots=True)
class PolicyPair:
    """A job selection and a core selection, by their numbers in the kernel."""

    job_key: int
    core_key: int

    @property
    def name(self) -> str:
        """The name, for instance ``"shortest-high_gflops"``."""
        job = next(name for name, key in JOB_SELECTIONS.items() if key == self.job_key)
        core = next(name for name, key in CORE_SELECTIONS.items() if key == self.core_key)
        return f"{job}-{core}"


def pair_names() -> list[str]:
    """Return the names of the 36 pairs, in HDeepRM's order of actions."""
    return [f"{job}-{core}" for job in JOB_SELECTIONS for core in CORE_SELECTIONS]


def _today(core: str) -> str:
    return OLDER_CORE_SELECTIONS.get(core, core)


def read_pair(name: str) -> PolicyPair:
    """Return a pair by its name; older names are understood.

    Parameters
    ----------
    name
        For instance ``"shortest-high_gflops"``, or ``"shortest-high_flops"`` as in HDeepRM 0.1.0.

    Raises
    ------
    UnknownName
        If there is no such pair.
    """
    job, _, core = name.partition("-")
    core = _today(core)
    if job not in JOB_SELECTIONS or core not in CORE_SELECTIONS:
        raise UnknownName("policy", name, pair_names())
    return PolicyPair(JOB_SELECTIONS[job], CORE_SELECTIONS[core])


def action_table(selection: Sequence[Mapping[str, Sequence[str]]] | None, *, void: bool = True) -> list[str]:
    """Return the actions of an environment, in HDeepRM's order: pairs, and void last.

    Parameters
    ----------
    selection
        ``env.actions.selection`` of the options: a list of ``{job selection: [core selections]}``; ``None``: all 36.
    void
        Whether starting nothing is an action.

    Raises
    ------
    UnknownName
        If a selection is unknown.
    """
    if selection is None:
        names = pair_names()
    else:
        names = [
            read_pair(f"{job}-{core}").name for entry in selection for job, cores in entry.items() for core in cores
        ]
    return [*names, VOID] if void else names
