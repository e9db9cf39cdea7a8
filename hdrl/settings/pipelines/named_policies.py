"""The policies of pipelines, as comparisons and agents from files ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.base.pyfiles import check_call
from hdrl.setting import PolicyBook


class PipelinePolicies(PolicyBook):
    """The policies."""

    default_baseline = "edf_global+fusion"
    functions = "policy(view)"

    def names(self) -> Sequence[str]:
        """Return the names of all policies."""
        from hdrl.settings.pipelines.simulation.policies import RULES

        return tuple(RULES)

    def groups(self) -> Mapping[str, Sequence[str]]:
        """Return the policies that a word stands for.

        ``fused`` and ``unfused``: with and without fusion. ``heuristics``: all that do not draw and use every unit, the
        opponents that a learned policy has to beat; what evolution has found is in none of the groups.
        """
        from hdrl.settings.pipelines.simulation.index import shipped_indices

        names = [name for name in self.names() if name not in shipped_indices()]
        kinds = ("cpu", "gpu", "random")
        return {
            "fused": [name for name in names if name.endswith("+fusion")],
            "unfused": [name for name in names if not name.endswith("+fusion") and name not in ("random", "static")],
            "heuristics": [name for name in names if name.partition("+")[0] not in kinds],
        }

    def read(self, text: str) -> str:
        """Return the name of a policy."""
        from hdrl.settings.pipelines.simulation.policies import read_policy

        return read_policy(text)

    def from_module(self, module: ModuleType, path: Path, suffix: str) -> Any:
        """Return the ``policy(view)`` of a Python file, ``None`` if it defines none; refuse a suffix."""
        found = getattr(module, "policy", None)
        if found is None:
            return None
        if not callable(found):
            raise OptionsError(f"{path}: policy is {found!r}, expected a function policy(view)")
        if suffix:
            raise OptionsError(f"{path}: a policy in Python takes no suffix, found {suffix!r}")
        check_call(found, "view", path)
        return found

    def draws(self, policy: str) -> bool:
        """Return whether the results of a policy depend on the seed."""
        from hdrl.settings.pipelines.simulation.policies import draws

        return draws(policy)

    def uses_hidden_information(self, policy: Any) -> bool:
        """Return whether a policy in Python says so (``policy.clairvoyant = True``); no named one sees true times."""
        return bool(getattr(policy, "clairvoyant", False))
