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

Besides, the priorities of the literature are job selections, and any job selection can be combined with
backfilling: ``<job selection>[+<backfilling>][-<core selection>]``, for instance ``fcfs+easy`` or
``wfp3+conservative-low_power``. Without a core selection, it is ``high_gflops``.

=========================  =======================================================================
priority                   the next job is the one with the lowest (r requested time, n cores, w waited, s submitted)
=========================  =======================================================================
``fcfs`` ``sjf`` ``ljf``   s; r; -r
``smallest`` ``largest``   n; -n
``saf`` ``lxf``            r n; -(w + r)/r
``wfp3`` ``unicef``        -(w/r)^3 n; -w/(log2(n) r)
``f1`` ``f2``              log10(r) n + 870 log10(s); sqrt(r) n + 25600 log10(s)
``f3`` ``f4``              r n + 6860000 log10(s); r sqrt(n) + 530000 log10(s)
``f1_relative`` ...        the same with s counted from the first submission of the workload
=========================  =======================================================================

=================  ===============================================================================
backfilling        jobs that do not delay the first one may overtake it, tried in the order of
=================  ===============================================================================
``easy``           their submission
``easy_sjbf``      their requested time
``easy_priority``  the job selection
``conservative``   the job selection, and every waiting job has a reservation that is kept
=================  ===============================================================================

All of them can use predicted run times instead of requested ones: ``sjf+easy@geo`` orders jobs, and those that
overtake, by a predictor of `predict.PREDICTORS`; reservations still use requests, and with ``@geo/all``
predictions, too. With ``~gate``, EASY holds jobs back that are expected to be long, so that processors stay free for
the short ones to come: ``saf+easy@geo~gate``.

Where nodes can be switched off, ``~off600`` does so with those that no job has used for 600 s, and boots them when
jobs wait for them; ``~on0.5`` keeps half of the nodes on, and more if the first waiting job needs them. Where they
have several sleep states, ``~off60~sleep1`` switches them to the second one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hdrl.base.errors import DecisionError, HdrlError, UnknownName, readable
from hdrl.base.textnumbers import float_of
from hdrl.settings.batch import options
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.keys import FIRST_OF_GATE, N_WEIGHTS
from hdrl.settings.batch.policies.choices import (
    BACKFILLINGS,
    CORE_SELECTIONS,
    DEFAULT_CORE_SELECTION,
    EASY_ORDERS,
    OLDER_CORE_SELECTIONS,
    OTHER_JOB_SELECTIONS,
    SITE_POLICIES,
    PolicyPair,
    site_policy,
)
from hdrl.settings.batch.policies.indexed import logs_of, shipped_index, shipped_indices
from hdrl.settings.batch.predict.network import read_network, shipped_network
from hdrl.settings.batch.predict.predictors import LEARNED, PREDICTORS

JOB_SELECTIONS: dict[str, int] = {name: number for number, name in enumerate(options.JOB_SELECTIONS)}
"""Number of each job selection in the kernel (``JOB_*`` in `kernel.codes`)."""

PRIORITIES: dict[str, int] = {
    "fcfs": codes.JOB_FIRST,
    "sjf": codes.JOB_SHORTEST,
    "ljf": codes.JOB_LONGEST,
    "smallest": codes.JOB_SMALLEST,
    "largest": codes.JOB_LARGEST,
    "saf": codes.JOB_SAF,
    "lxf": codes.JOB_LXF,
    "wfp3": codes.JOB_WFP3,
    "unicef": codes.JOB_UNICEF,
    "f1": codes.JOB_F1,
    "f2": codes.JOB_F2,
    "f3": codes.JOB_F3,
    "f4": codes.JOB_F4,
    "f1_relative": codes.JOB_F1_RELATIVE,
    "f2_relative": codes.JOB_F2_RELATIVE,
    "f3_relative": codes.JOB_F3_RELATIVE,
    "f4_relative": codes.JOB_F4_RELATIVE,
}
"""Number of each priority in the kernel."""

GATE = "gate"
"""The gate by hand."""

SLEEP = "sleep"
"""Name of the rule that chooses the sleep state of switched nodes, by its position among the platform's."""

NODE_RULES = {"off": "600", "on": "0.5", SLEEP: "1"}
"""Rules that switch nodes: idle seconds before a node goes off, the share of nodes that stay on, and the sleep state;
with examples."""

ADDITIONS = {
    **{
        f"@{name}": f"by {'true' if PREDICTORS[name].is_clairvoyant else 'predicted'} run times"
        for name in PREDICTORS
        if name != "requested"
    },
    f"~{GATE}": "under EASY, jobs that are expected to be long are held back",
    f"~off{NODE_RULES['off']}": "nodes that no job has used for 600 s are switched off, and on when jobs wait for them",
    f"~on{NODE_RULES['on']}": "half of the nodes are on, more if the first waiting job needs them",
    f"~off{NODE_RULES['off']}~{SLEEP}{NODE_RULES[SLEEP]}": "the second sleep state, instead of off",
}
"""Suffixes of the name of a policy, in this order, with example numbers, and their effects."""

GATE_BY_HAND = tuple({FIRST_OF_GATE: -3.44, FIRST_OF_GATE + 1: 2.14}.get(i, 0.0) for i in range(N_WEIGHTS))
"""Its weights: the longer a job is expected to run, the more of the machine must stay free for it to start."""

_OWN_NETWORK = re.compile(r"(?P<before>[^@]*)@(?P<file>.+\.json)(?P<after>(/all)?(~[\w.]+)*(-\w+)?)")
"""The name of a policy that uses a user's own network: the name of its file may hold any character."""

VOID = "void"
"""The action that starts nothing."""


def pair_names() -> list[str]:
    """Return the names of the 36 pairs, in HDeepRM's order of actions."""
    return [f"{job}-{core}" for job in JOB_SELECTIONS for core in options.CORE_SELECTIONS]


def priority_names() -> list[str]:
    """Return the names of all priorities, alone and with each kind of backfilling, on the default core selection."""
    return [f"{priority}{suffix}" for priority in PRIORITIES for suffix in ("", *(f"+{kind}" for kind in BACKFILLINGS))]


def heuristic_names(suffix: str = "") -> list[str]:
    """Return the names of every priority under EASY with each order of backfilling.

    ``suffix``: what follows the names: ``"@geo"`` for those that use predictions.
    """
    return [f"{priority}+{order}{suffix}" for priority in PRIORITIES for order in EASY_ORDERS]


TRUE_TIMES = "clairvoyant"
"""The predictor that knows how long jobs run."""

_TRUE = f"@{TRUE_TIMES}"


def read_pair(name: str) -> PolicyPair:
    """Return a pair, with or without backfilling, by its name; older names are understood.

    Parameters
    ----------
    name
        For instance ``"shortest-high_gflops"``, ``"shortest-high_flops"`` as in HDeepRM 0.1.0, ``"fcfs+easy"``, or
        ``"sjf+easy@geo"``.

    Raises
    ------
    UnknownName
        If there is no such policy.
    DecisionError
        If a gate or predicted reservations are requested without EASY, or nodes are to be switched with reservations
        for all jobs, or by something that is no number, or a sleep state is named without switching any.
    ReadError
        If a network that is named cannot be read.
    """
    if name in SITE_POLICIES:
        return site_policy(name)
    if name in shipped_indices():
        return shipped_index(name)
    if name.removesuffix(_TRUE) in shipped_indices():
        pair = shipped_index(name.removesuffix(_TRUE))
        rule = replace(pair.rule, **PREDICTORS[TRUE_TIMES].rule_arguments())
        return replace(pair, name=name, rule=rule, is_clairvoyant=True)
    plain, tilde, more = name.partition("~")
    if tilde and plain.removesuffix(_TRUE) in shipped_indices():
        if GATE in more.split("~"):
            raise DecisionError(
                f"policy {name!r}: {plain} has a gate of its own, expected for instance '{plain}~off600'"
            )
        return _with_additions(replace(read_pair(plain), name=name), more)
    matched = _OWN_NETWORK.fullmatch(name)
    if matched is not None:
        pair = read_pair(f"{matched['before']}@{LEARNED}{matched['after']}")
        network = read_network(matched["file"])
        return replace(pair, name=name, rule=replace(pair.rule, network=network.numbers, by_name=network.by_name))
    choice, dash, core = name.partition("-")
    plain, tilde, more = choice.partition("~")
    plain, at, predictor = plain.partition("@")
    job, plus, kind = plain.partition("+")
    if dash and job in OTHER_JOB_SELECTIONS:
        job, choice = OTHER_JOB_SELECTIONS[job], OTHER_JOB_SELECTIONS[job] + choice.removeprefix(job)
    core = OLDER_CORE_SELECTIONS.get(core, core) if dash else DEFAULT_CORE_SELECTION
    fits = not plus or kind in BACKFILLINGS
    known = fits and core in CORE_SELECTIONS
    # A bare job selection of HDeepRM's names no pair; a priority stands alone.
    if not known or not (job in PRIORITIES or (job in JOB_SELECTIONS and (dash or plus))):
        likely = [f"{choice}-{one}" for one in CORE_SELECTIONS if dash and fits and job in PRIORITIES]
        names = [*pair_names(), *priority_names(), *shipped_indices(), *SITE_POLICIES]
        raise UnknownName("policy", name, [*names, *likely])
    key = PRIORITIES[job] if job in PRIORITIES else JOB_SELECTIONS[job]
    backfilling = BACKFILLINGS[kind] if plus else codes.NO_BACKFILLING
    today = f"{choice}-{core}" if dash else choice
    pair = PolicyPair(today, key, CORE_SELECTIONS[core], backfilling)
    if tilde:
        pair = _with_additions(pair, more)
    return _with_predictor(pair, predictor if at else None)


def _with_additions(pair: PolicyPair, words: str) -> PolicyPair:
    """Return a pair that holds jobs back or switches nodes off, as the words after its name say."""
    for word in words.split("~"):
        pair = _with_gate(pair) if word == GATE else _with_nodes(pair, word)
    if pair.rule.sleep_state and pair.rule.node_rule == codes.NODES_LEFT_ALONE:
        raise DecisionError(
            f"policy {pair.name!r}: {SLEEP} without ~off or ~on, expected for instance 'fcfs~off600~sleep1'"
        )
    return pair


def _with_gate(pair: PolicyPair) -> PolicyPair:
    """Return a pair whose jobs may be held."""
    if pair.backfilling not in codes.EASY:
        raise DecisionError(f"policy {pair.name!r}: a gate without EASY, expected for instance 'saf+easy@geo~gate'")
    return replace(pair, rule=replace(pair.rule, weights=GATE_BY_HAND, has_gate=True))


def _with_nodes(pair: PolicyPair, word: str) -> PolicyPair:
    """Return a pair that switches nodes off: ``off600``, or ``on0.5``; or to another sleep state: ``sleep1``."""
    rule = next((name for name in NODE_RULES if word.startswith(name)), None)
    if rule is None:
        raise UnknownName("suffix", word, [GATE, *(f"{name}{example}" for name, example in NODE_RULES.items())])
    text = word.removeprefix(rule)
    if pair.backfilling == codes.CONSERVATIVE:
        raise DecisionError(
            f"policy {pair.name!r}: conservative backfilling plans with all nodes on, "
            "expected EASY, for instance 'fcfs+easy~off600'"
        )
    if rule == SLEEP:
        if not (text.isdecimal() and len(text) < 3):
            raise DecisionError(f"policy {pair.name!r}: sleep is {readable(repr(text))}, expected a number from 0 on")
        return replace(pair, rule=replace(pair.rule, sleep_state=int(text)))
    try:
        number = float_of(text)
    except ValueError:
        number = math.nan
    most = 1.0 if rule == "on" else 1e9
    if not 0 <= number <= most:
        expected = "a share of the nodes, 0 to 1" if rule == "on" else "seconds, at least 0"
        raise DecisionError(f"policy {pair.name!r}: {rule} is {readable(repr(text))}, expected {expected}")
    if rule == "on":
        return replace(pair, rule=replace(pair.rule, node_rule=codes.NODES_BY_NUMBER, share_on=number))
    return replace(pair, rule=replace(pair.rule, node_rule=codes.NODES_BY_TIMEOUT, off_after_s=number))


def _with_predictor(pair: PolicyPair, predictor: str | None) -> PolicyPair:
    """Return a pair that uses predictions; with a gate and no predictor, requested times are its predictions."""
    if predictor is None and not pair.rule.has_gate:
        return pair
    base, slash, what = (predictor or "requested").partition("/")
    if slash and what != "all":
        raise UnknownName("use of predictions", what, ["all"])
    if pair.backfilling not in codes.EASY and slash:
        raise DecisionError(
            f"policy {pair.name!r}: reservations by predictions without EASY, expected for instance 'saf+easy@geo/all'"
        )
    chosen = PREDICTORS[base]
    rule = replace(pair.rule, **chosen.rule_arguments(), predicts_ends=bool(slash))
    return replace(pair, rule=rule, is_clairvoyant=chosen.is_clairvoyant)


def with_true_times(name: str) -> str | None:
    """Return the name of the same policy by true run times; ``None`` if there is none, or it has them already.

    Under EASY reservations use them, too.

    ``name``: for instance ``"sjf+easy@geo"``, whose twin is ``"sjf+easy@clairvoyant/all"``.
    """
    network = network_file(name)
    plain = name if network is None else name.replace(f"@{network}", "")
    index, tilde, more = plain.partition("~")
    if index in shipped_indices():
        return f"{index}{_TRUE}{tilde}{more}"
    plain = re.sub(r"@[^~-]*", "", plain, count=1)
    end = min((plain.find(mark) for mark in "~-" if mark in plain), default=len(plain))
    for predictor in (f"{_TRUE}/all", _TRUE):
        twin = f"{plain[:end]}{predictor}{plain[end:]}"
        try:
            return None if read_pair(name).is_clairvoyant else read_pair(twin).name
        except HdrlError:
            continue
    return None


def network_file(name: str) -> str | None:
    """Return the file of the network that the name of a policy holds, ``None`` if it holds none."""
    matched = _OWN_NETWORK.fullmatch(name)
    return None if matched is None else matched["file"]


def parts_of_name(name: str) -> list[str]:
    """Return the words of a policy's name, without the path of a network that it names."""
    matched = _OWN_NETWORK.fullmatch(name)
    plain = name if matched is None else f"{matched['before']}@{LEARNED}{matched['after']}"
    return re.split(r"[^\w.]+(?:node_)?", plain)


def logs_known_to(name: str) -> Mapping[str, float]:
    """Return the logs that a policy or its predictor was trained on, and up to which share of the jobs."""
    index = name.partition("~")[0]
    if index in shipped_indices():
        return logs_of(index)
    file = network_file(name)
    if file is not None:
        return read_network(file).trained_on
    return shipped_network().trained_on if re.search(rf"@{LEARNED}(?![^/~-])", name) else {}


def action_table(selection: Sequence[Mapping[str, Sequence[str]]] | None, *, void: bool = True) -> list[str]:
    """Return the actions of an environment, in HDeepRM's order: pairs, and void last.

    Parameters
    ----------
    selection
        ``env.actions.selection`` of the options: a list of ``{job selection: [core selections]}``; ``None``: all 36.

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
