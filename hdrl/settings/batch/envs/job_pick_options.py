"""The options of JobPick by name, and their numbers in the compiled simulator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import OptionsError, suggest
from hdrl.envs.requests import check_flags, checked_count
from hdrl.envs.row_pick import RowLayout
from hdrl.settings.batch.envs.rewards import NO_CODE, AnyObjective, GivenObjective, Objective, read_objective
from hdrl.settings.batch.envs.rewards import OBJECTIVES as ALL_OBJECTIVES
from hdrl.settings.batch.identical_cores import codes
from hdrl.settings.batch.identical_cores.observe import LONGEST_S
from hdrl.settings.batch.identical_cores.state import SETTINGS_DTYPE
from hdrl.settings.batch.identical_cores.table import JobColumns, job_table, row_templates
from hdrl.settings.batch.kernel import codes as kernel_codes
from hdrl.settings.batch.policies.choices import BACKFILLINGS as KINDS
from hdrl.settings.batch.policies.choices import PolicyPair
from hdrl.settings.batch.policies.pairs import PRIORITIES, read_pair
from hdrl.settings.batch.predict.predictors import PREDICTORS

OBJECTIVES: dict[str, Objective] = {name: one for name, one in ALL_OBJECTIVES.items() if one.pool_code != NO_CODE}
"""The objectives of `envs.rewards` that a pool knows, by the names of their metrics."""

REPORTED = ("mean_bounded_slowdown", "mean_slowdown", "mean_wait_s", "mean_turnaround_s", "utilization", "makespan_s")
"""Metrics in ``info["results"]`` at every end; others are there if they are rewarded."""

COMMITMENTS: dict[str, int] = {"block": codes.BLOCK, "repick": codes.REPICK}
"""Effects of choosing a job, see `identical_cores.engine`."""

BACKFILLINGS: dict[str, int] = {
    "none": kernel_codes.NO_BACKFILLING,
    **{name: number for name, number in KINDS.items() if number != kernel_codes.CONSERVATIVE},
    "rlscheduler": kernel_codes.STRICT_FCFS,
}
"""Jobs that may overtake one that does not fit, see `identical_cores.engine`."""

SHAPED = "shaped"
"""The reward of each step that is what it adds to the objective."""

RELATIVE = "relative"
"""The reward that compares an episode with what a fixed priority makes of it."""

REWARDS: dict[str, bool] = {"end": False, SHAPED: True, RELATIVE: False}
"""Dates of rewards, and whether each step gets what it adds."""

FEATURES: dict[str, tuple[int, ...]] = {
    "free_processors": (codes.FREE_PROCESSORS,),
    "queue_length": (codes.QUEUE_LENGTH,),
    "running": (codes.RUNNING_JOBS, codes.RUNNING_REMAINING),
    "log_wait": (codes.LOG_WAIT,),
    "log_requested_time": (codes.LOG_REQUESTED_TIME,),
    "log_processors": (codes.LOG_PROCESSORS,),
    "expected_slowdown": (codes.EXPECTED_SLOWDOWN,),
    "earliest_start": (codes.EARLIEST_START,),
    "is_chosen": (codes.IS_CHOSEN,),
    "profile": tuple(range(codes.PROFILE, codes.PROFILE + codes.N_PROFILE)),
    "index": tuple(range(codes.INDEX, codes.BACKLOG)),
    "backlog": (codes.BACKLOG,),
}
"""Further features, and the columns that each takes."""

_OF_SITES = ("partition", "partition_free", "account_share", "qos", "gpus", "nodes")
SITE_FEATURES: dict[str, tuple[int, ...]] = dict.fromkeys(_OF_SITES, ())
"""Features that only machines with the rules of a site have, a column each; `envs.site_pick` computes them."""

AT_SITES = frozenset(
    (
        *SITE_FEATURES,
        *("free_processors", "queue_length", "log_wait", "log_requested_time", "log_processors", "expected_slowdown"),
    )
)
"""Features that machines with the rules of a site have."""

PREDICTED = frozenset({"index", "backlog"})
"""Features that need predicted run times."""

FIXED = "fixed"
"""The scales of columns that are constants: what is seen of a job depends on no other one."""

LARGEST = "largest"
"""The scales that are the largest values of the jobs at hand, those included that are still to come."""

SCALES: dict[str, bool] = {FIXED: False, LARGEST: True}
"""Scales of the columns, and whether they are the largest values."""

SKIP = "skip"
"""The extra action that starts nothing."""

ORDER_KEYS = frozenset(PRIORITIES.values())
"""Job keys of the policies to imitate."""

DEFAULT_PREDICTOR = "geo"
"""Default predictor of run times."""

COMPATIBILITY = "rlscheduler"
"""The compatibility mode."""

MODES = (COMPATIBILITY, "dissertation")
"""All of them; the second is an environment of its own, see `envs.job_pick_making`."""

INVERTED: dict[str, int] = {"wfp3": kernel_codes.JOB_WFP3_INVERTED, "unicef": kernel_codes.JOB_UNICEF_INVERTED}
"""Priorities that are something else in the compatibility mode."""


def number_of(what: str, name: object, numbers: Mapping[str, Any]) -> Any:
    """Return the value of a name."""
    if not isinstance(name, str) or name not in numbers:
        raise OptionsError(f"{what} is {name!r}; {suggest(str(name), numbers)}")
    return numbers[name]


@dataclass(frozen=True, slots=True)
class JobPickOptions:
    """Decisions and observations, all of them chosen: `envs.job_pick.JobPickVectorEnv` describes them."""

    commitment: str
    backfilling: str
    objective: AnyObjective
    reward: str
    reference: str
    order: str
    features: tuple[str, ...]
    has_skip: bool
    max_jobs: int
    compatibility: str | None
    predictor: str = DEFAULT_PREDICTOR
    scaled_columns: bool = True
    scales: str = FIXED
    may_hold: bool = False
    guides: tuple[PolicyPair, ...] = ()  # the policies to imitate

    @property
    def predicts(self) -> bool:
        """True if run times are predicted."""
        return not PREDICTED.isdisjoint(self.features) or any(map(_predicts, self.guides))

    @property
    def network(self) -> NDArray[np.float64]:
        """The numbers of the network that predicts run times; empty without."""
        rule_arguments = PREDICTORS[self.predictor].rule_arguments() if self.predicts else {}
        return np.array(rule_arguments.get("network", ()), dtype=np.float64)

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the observation beyond RLScheduler's eight."""
        return tuple(code for name in self.features for code in FEATURES.get(name, ()))

    @property
    def n_features(self) -> int:
        """The number of columns of the observation."""
        return codes.N_TEMPLATE + len(self.columns) + len(SITE_FEATURES.keys() & set(self.features))

    @property
    def layout(self) -> RowLayout:
        """The table that is seen, and the actions."""
        return RowLayout(self.max_jobs, self.n_features, (SKIP,) if self.has_skip else (), n_per_row=1 + self.may_hold)

    def check_world(self, *, has_rules: bool) -> JobPickOptions:
        """Return the options if machines with the rules of a site have what they name, or those without.

        Raises
        ------
        OptionsError
            If they do not; the message names it.
        """
        if not has_rules:
            for name in SITE_FEATURES.keys() & set(self.features):
                raise OptionsError(f"feature {name!r} exists only on a machine with the rules of a site")
            return self
        for name in self.features:
            if name not in AT_SITES:
                expected = ", ".join(sorted(AT_SITES))
                raise OptionsError(f"a machine with the rules of a site has no feature {name!r}, expected: {expected}")
        for what, value, known in (
            ("commitment", self.commitment, ("repick",)),
            ("backfilling", self.backfilling, ("none", "easy", "easy_sjbf")),
            ("reward", self.reward, ("end", RELATIVE)),
            ("order", self.order, ("fcfs",)),
            ("may_hold", self.may_hold, (False,)),
            ("guide", [one.name for one in self.guides] or None, (None,)),
        ):
            if value not in known:
                expected = " or ".join(map(repr, known))
                raise OptionsError(
                    f"{what} is {value!r}; on a machine with the rules of a site, expected {expected} "
                    "(site_rules=false leaves the rules out)"
                )
        return self

    def priority(self, name: str) -> int:
        """Return the job key of a priority."""
        inverted = INVERTED if self.compatibility == COMPATIBILITY else {}
        return int(number_of("priority", name, PRIORITIES | inverted))

    def settings(self, n_procs: int, requested_time_s: NDArray[np.float64]) -> NDArray[np.void]:
        """Return the settings of the compiled simulator, an array of one `SETTINGS_DTYPE`."""
        result = np.zeros(1, dtype=SETTINGS_DTYPE)
        s = result[0]
        s["n_procs"] = n_procs
        s["commitment"] = COMMITMENTS[self.commitment]
        s["backfilling"] = BACKFILLINGS[self.backfilling]
        s["has_skip"] = self.has_skip
        s["may_hold"] = self.may_hold
        s["is_one_by_one"] = self.compatibility == COMPATIBILITY
        s["has_expectations"] = self.backfilling != "none" or len(self.columns) > 0
        s["order_key"] = PRIORITIES[self.order]
        s["objective"] = self.objective.pool_code if isinstance(self.objective, Objective) else codes.OWN
        s["is_shaped"] = REWARDS[self.reward]
        s["max_jobs"] = self.max_jobs
        s["n_features"] = self.n_features
        s["predictor"] = PREDICTORS[self.predictor].code if self.predicts else kernel_codes.PREDICT_NOTHING
        longest_s = max(float(requested_time_s.max(initial=1.0)), 1.0) if SCALES[self.scales] else LONGEST_S
        s["log_requested_scale"] = 1.0 / math.log1p(longest_s)
        return result

    def shared_arrays(self, columns: JobColumns, n_procs: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the arrays that all environments share on some jobs, each with the processors of its machine."""
        return {
            "jobs": job_table(columns),
            "templates": row_templates(columns, n_procs, is_scaled=self.scaled_columns, by_largest=SCALES[self.scales]),
            "settings": self.settings(int(n_procs.max()), columns.requested_time_s),
            "columns": np.array(self.columns, dtype=np.int64),
            "network": self.network,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PickChoices:
    """The choices for an environment, see `envs.job_pick.JobPickVectorEnv`; ``None``: as the mode has it."""

    commitment: str | None = None
    backfilling: str | None = None
    objective: GivenObjective = "mean_bounded_slowdown"
    reward: str = "end"
    reference: str = "f4"
    order: str = "fcfs"
    features: Iterable[str] = ()
    skip: bool = False
    max_jobs: int = 128
    compatibility: str | None = None
    predictor: str = DEFAULT_PREDICTOR
    scaled_columns: bool = True
    scales: str | None = None
    may_hold: bool = False
    guide: str | Sequence[str] | None = None

    def checked(self) -> JobPickOptions:
        """Check the choices and fill in what depends on the compatibility mode.

        Raises
        ------
        OptionsError
            If one is unknown, or some contradict each other.
        HdrlError
            If there is no such objective.
        """
        check_flags(skip=self.skip, may_hold=self.may_hold, scaled_columns=self.scaled_columns)
        if self.compatibility not in (None, COMPATIBILITY):
            raise OptionsError(f"compatibility is {self.compatibility!r}; {suggest(str(self.compatibility), MODES)}")
        is_compatible = self.compatibility is not None
        commitment, backfilling, scales = self.commitment, self.backfilling, self.scales
        if commitment is None:
            commitment = "block" if is_compatible or backfilling == "rlscheduler" else "repick"
        if backfilling is None:
            backfilling = "none" if is_compatible else "easy"
        if scales is None:
            scales = LARGEST if is_compatible else FIXED
        for what, name, known in (
            ("commitment", commitment, COMMITMENTS),
            ("backfilling", backfilling, BACKFILLINGS),
            ("reward", self.reward, REWARDS),
            ("reference", self.reference, PRIORITIES),
            ("order", self.order, PRIORITIES),
            ("scales", scales, SCALES),
        ):
            number_of(what, name, known)
        if PREDICTORS[self.predictor].run_times is not None:
            raise OptionsError(f"predictor is {self.predictor!r}, expected one that learns from ended jobs")
        if PREDICTORS[self.predictor].by_name:
            raise OptionsError(f"predictor is {self.predictor!r}; names of jobs are not known here, expected 'geo'")
        checked_count("max_jobs", self.max_jobs)
        if backfilling == "rlscheduler" and commitment != "block":
            raise OptionsError("backfilling is 'rlscheduler', which needs commitment 'block'")
        if is_compatible:
            _check_compatible(commitment, backfilling, has_more_actions=self.skip or self.may_hold)
        made = JobPickOptions(
            commitment=commitment,
            backfilling=backfilling,
            objective=read_objective(self.objective, OBJECTIVES),
            reward=self.reward,
            reference=self.reference,
            order=self.order,
            features=_features(self.features),
            has_skip=bool(self.skip),
            max_jobs=int(self.max_jobs),
            compatibility=self.compatibility,
            predictor=self.predictor,
            scaled_columns=bool(self.scaled_columns),
            scales=scales,
            may_hold=bool(self.may_hold),
        )
        return replace(made, guides=_guides(names_of_guides(self.guide), made))


def names_of_guides(guide: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the policies that may be imitated."""
    return (guide,) if isinstance(guide, str) else tuple(guide or ())


def _predicts(pair: PolicyPair) -> bool:
    """Return whether a policy uses predicted run times."""
    return pair.rule.predictor != kernel_codes.PREDICT_NOTHING


def guided_settings(settings: NDArray[np.void], pair: PolicyPair) -> NDArray[np.void]:
    """Return settings of the compiled simulator that tell the choices of a policy."""
    result = settings.copy()
    s = result[0]
    s["guide_key"], s["guide_order"], s["guide_predicts"] = pair.job_key, pair.backfilling, _predicts(pair)
    s["guide_form"], s["guide_gate"] = pair.rule.index_form, pair.rule.has_gate
    return result


def _guides(names: Sequence[str], options: JobPickOptions) -> tuple[PolicyPair, ...]:
    pairs = tuple(_guide(name, options) for name in names)
    if sum(len(pair.rule.weights) > 0 for pair in pairs) > 1:  # what they make of a job has one array
        raise OptionsError(f"policies to imitate {', '.join(names)}: expected at most one with weights or a gate")
    return pairs


def _is_automatic(pair: PolicyPair, options: JobPickOptions) -> bool:
    """Return whether jobs overtake here by themselves as under a policy: in its order, which uses requested times."""
    is_same = BACKFILLINGS[options.backfilling] == pair.backfilling
    return is_same and (not _predicts(pair) or pair.backfilling == kernel_codes.EASY_FCFS)


def _guide(name: str, options: JobPickOptions) -> PolicyPair:
    """Return the policy to imitate, which must be able to decide here."""
    pair, what = read_pair(name), f"policy to imitate {name!r}"
    rule = pair.rule
    if pair.backfilling not in kernel_codes.EASY or pair.job_key not in (*ORDER_KEYS, kernel_codes.JOB_INDEX):
        raise OptionsError(f"{what}: expected EASY with a priority, such as 'saf+easy_priority@geo'")
    if options.commitment != "repick":
        raise OptionsError(f"{what}: commitment is {options.commitment!r}, expected 'repick', as in EASY")
    if rule.predicts_ends or rule.node_rule != kernel_codes.NODES_LEFT_ALONE:
        raise OptionsError(f"{what}: reservations by predictions and switched nodes are not simulated here")
    known = (kernel_codes.PREDICT_NOTHING, PREDICTORS[options.predictor].code)
    if rule.predictor not in known or rule.by_name:
        raise OptionsError(f"{what}: it uses another predictor than this environment, {options.predictor!r}")
    if options.backfilling != "easy_priority" and not _is_automatic(pair, options):
        raise OptionsError(f"{what}: backfilling is {options.backfilling!r}, expected 'easy_priority'")
    if rule.has_gate and not options.may_hold and not (options.has_skip and options.backfilling == "easy_priority"):
        raise OptionsError(f"{what}: it holds jobs back, expected may_hold, or skip with backfilling 'easy_priority'")
    return pair


def _check_compatible(commitment: str, backfilling: str, *, has_more_actions: bool) -> None:
    if commitment != "block" or backfilling not in ("none", "rlscheduler") or has_more_actions:
        raise OptionsError(
            f"compatibility is {COMPATIBILITY!r}, which means commitment 'block', backfilling 'none' or 'rlscheduler'"
            " and neither skip nor may_hold"
        )


def _features(features: Iterable[str]) -> tuple[str, ...]:
    names: Sequence[str] = [features] if isinstance(features, str) else list(features)
    for name in names:
        number_of("features", name, FEATURES | SITE_FEATURES)
    if len(set(names)) < len(names):
        raise OptionsError(f"features holds {max(names, key=names.count)!r} more than once")
    return tuple(names)
