"""The policies of batch jobs, as comparisons and agents from files ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hdrl.base.errors import HdrlError
from hdrl.setting import Clairvoyance, PolicyBook
from hdrl.settings.batch.sweep import DEFAULT_BASELINE


class BatchPolicies(PolicyBook, Clairvoyance):
    """The policies."""

    default_baseline = DEFAULT_BASELINE
    functions = "policy(view) or priority(job, now_s)"

    def names(self) -> Sequence[str]:
        """Return the names of all policies."""
        from hdrl.settings.batch.policies import policy_names

        return policy_names()

    def groups(self) -> Mapping[str, Sequence[str]]:
        """Return the policies that a word stands for.

        ``pairs36``: the pairs of HDeepRM. ``priorities``: every priority without backfilling. ``heuristics``: every
        priority under EASY with each order of backfilling, the opponents that a learned policy has to beat.
        ``heuristics@geo`` and so on: the same by predicted run times.
        """
        from hdrl.settings.batch.policies import pair_names, priority_names
        from hdrl.settings.batch.policies.pairs import heuristic_names
        from hdrl.settings.batch.predict.predictors import PREDICTORS

        predicting = [name for name in PREDICTORS if name != "requested" and not PREDICTORS[name].is_clairvoyant]
        return {
            "pairs36": pair_names(),
            "priorities": [name for name in priority_names() if "+" not in name],
            "heuristics": heuristic_names(),
            **{f"heuristics@{name}": heuristic_names(f"@{name}") for name in predicting},
        }

    def suffixes(self) -> Mapping[str, str]:
        """Return the suffixes that predict run times, hold jobs back and switch nodes off."""
        from hdrl.settings.batch.policies.pairs import ADDITIONS

        return ADDITIONS

    def peer_group(self, decider: str | Mapping[str, Any]) -> str | None:
        """Return the group of heuristics that use the same predictions as a candidate; ``None`` if it has none."""
        from hdrl.settings.batch.policies import VOID
        from hdrl.settings.batch.policies.pairs import read_pair
        from hdrl.settings.batch.policies.python_policies import is_in_python
        from hdrl.settings.batch.predict.predictors import PREDICTORS

        if not isinstance(decider, str):
            is_index = decider.get("id") == "hdrl/JobIndex-v0"
            predictor = str(decider.get("arguments", {}).get("predictor", "geo")) if is_index else ""
        elif decider == VOID or is_in_python(decider):
            return None
        else:
            if self.files(decider):
                return None  # a user's own network, which no group uses
            rule = read_pair(decider).rule
            kind = (rule.predictor, rule.by_name)
            known = ((name, (PREDICTORS[name].code, PREDICTORS[name].by_name)) for name in PREDICTORS)
            predictor = next((name for name, one in known if one == kind), "")
        group = f"heuristics@{predictor}"
        return group if group in self.groups() else None

    def trained_on(self, policy: str) -> Mapping[str, float]:
        """Return the logs that a shipped policy, or the network that predicts for it, was trained on."""
        from hdrl.settings.batch.policies.pairs import logs_known_to

        return logs_known_to(policy)

    def predicts(self, candidate: str) -> bool:
        """Return whether a candidate of a sweep is a policy, or a group, that uses predictions.

        ``candidate``: as it was written: a policy, a group, ``NAME=...``.
        """
        name = candidate.rpartition("=")[2]
        if name in self.groups():
            name = self.groups()[name][0]
        try:
            return bool(self.files(name)) or self.peer_group(name) is not None
        except HdrlError:  # a file or a pattern
            return False

    def read(self, text: str) -> str:
        """Return today's name of a policy; the names of all versions of HDeepRM are understood."""
        from hdrl.settings.batch.policies import normalise_policy_name

        return normalise_policy_name(text)

    def from_module(self, module: ModuleType, path: Path, suffix: str) -> Any:
        """Return the ``policy(view)`` or the priority of a Python file, ``None`` if it defines neither."""
        from hdrl.settings.batch.policies.pyfile import policy_of

        return policy_of(module, path, suffix)

    def of_source(self, path: Path) -> Any:
        """Return the scheduler of a C++ file that speaks Batsim's protocol."""
        from hdrl.settings.batch.simulators import BatsimProgram

        return BatsimProgram(path)

    def files(self, policy: str) -> Sequence[str]:
        """Return the file of a network that predicts run times, if the name of a policy holds one."""
        from hdrl.settings.batch.policies.pairs import network_file

        file = network_file(policy)
        return () if file is None else (file,)

    def draws(self, policy: str) -> bool:
        """Tell whether the results of a policy depend on the seed."""
        from hdrl.settings.batch.policies.pairs import parts_of_name

        return "random" in parts_of_name(policy)

    def uses_hidden_information(self, policy: Any) -> bool:
        """Tell whether a policy says that it sees true run times."""
        from hdrl.settings.batch.policies import is_clairvoyant

        return is_clairvoyant(policy)

    def with_true_times(self, policy: str) -> str | None:
        """Return the same policy by true run times; ``None`` for those that use no run times."""
        from hdrl.settings.batch.policies.pairs import with_true_times

        return with_true_times(policy)
