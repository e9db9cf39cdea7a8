"""Rows of pairs in Gavel's rounds: which pairs are there, and what they did not get of their shares."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hdrl.compiled.fields import fields_of
from hdrl.settings.gpu.kernel import rounds as kernel
from hdrl.settings.gpu.policies.packing import PackedShares
from hdrl.settings.gpu.policies.situation import Floats, Ints


@dataclass
class Packing:
    """The pairs of a simulation."""

    profiles: Ints
    pair_rates: Floats
    _deficits: dict[int, Floats] = field(default_factory=dict)

    def assign_rows(self, state: kernel.Rounds, jobs: Ints, found: PackedShares) -> kernel.Rounds:
        """Give each pair with a share a row, and return the state, which has more rows then if it needs them."""
        n = len(self.profiles)
        members = np.sort(jobs[found.pairs], axis=1)
        keys = members[:, 0] * n + members[:, 1]
        order = np.argsort(keys)
        keys, members, shares = keys[order], members[order], found.together[order]
        kept = self._leave(state, keys)
        kept_keys = self._keys(state, kept)
        is_new = ~np.isin(keys, kept_keys)
        rows = np.empty(len(keys), dtype=np.int64)
        free = np.setdiff1d(np.arange(n, len(state.member)), kept)
        n_missing = int(is_new.sum()) - len(free)
        if n_missing > 0:
            free = np.concatenate([free, np.arange(len(state.member), len(state.member) + 2 * n_missing)])
            state = _with_more_rows(state, 2 * n_missing)
        rows[is_new] = free[: is_new.sum()]
        by_key = np.argsort(kept_keys)
        if len(kept):
            rows[~is_new] = kept[by_key][np.searchsorted(kept_keys[by_key], keys[~is_new])]
        self._enter(state, rows[is_new], members[is_new], keys[is_new])
        state.share[kept] = 0.0
        state.share[rows] = shares
        active = np.concatenate([jobs, np.union1d(kept, rows)])
        state.active[: len(active)] = active
        state.scalars["n_active"][0] = len(active)
        return state

    def _keys(self, state: kernel.Rounds, rows: Ints) -> Ints:
        return np.asarray(state.member[rows, 0] * len(self.profiles) + state.member[rows, 1])

    def _leave(self, state: kernel.Rounds, keys: Ints) -> Ints:
        """Return the rows of pairs that have a share still, or run; remember of the others what they did not get."""
        active = state.active[: state.scalars["n_active"][0]]
        rows = active[active >= len(self.profiles)]
        old = self._keys(state, rows)
        stays = np.isin(old, keys) | (state.on_type[rows] >= 0)
        for key, row in zip(old[~stays].tolist(), rows[~stays].tolist(), strict=True):
            self._deficits[key] = state.deficit_s[row].copy()
        return np.asarray(rows[stays])

    def _enter(self, state: kernel.Rounds, rows: Ints, members: Ints, keys: Ints) -> None:
        """Write the rows of pairs that are new."""
        half_s = state.scalars["round_s"][0] / 2.0
        one, other = members[:, 0], members[:, 1]
        may = (state.rates[one, :, 0] > 0.0) & (state.rates[other, :, 0] > 0.0)
        state.member[rows] = members
        state.rates[rows] = self.pair_rates[self.profiles[one], self.profiles[other]] * may[:, :, None]
        state.time_s[rows] = half_s
        state.on_type[rows], state.has_share[rows] = -1, 1
        # As in Gavel's simulator, where the time of a pair begins half a round below that of a job.
        state.deficit_s[rows] = half_s
        for row, key in zip(rows.tolist(), keys.tolist(), strict=True):
            if key in self._deficits:
                state.deficit_s[row] = self._deficits.pop(key)


def _with_more_rows(state: kernel.Rounds, n: int) -> kernel.Rounds:
    longer = {}
    for name, one in fields_of(kernel.Rounds).items():
        if one.lengths[0] == "n_rows":
            array = getattr(state, name)
            longer[name] = np.concatenate([array, np.zeros((n, *array.shape[1:]), dtype=array.dtype)])
    return state._replace(**longer)
