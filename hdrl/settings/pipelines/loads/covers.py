"""The cheapest ways to cut a pipeline into kernels and fused groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hdrl.settings.pipelines.loads.pipeline import NEVER, Pipeline
from hdrl.settings.pipelines.machine import KINDS

MAX_COVERS = 100_000
"""Largest number of partial covers in the search for an exact answer."""


def option_us(times_us: tuple[int, int], kinds: tuple[int, ...]) -> int:
    """Return the shortest time of an option on units of some kinds, `NEVER` if it can run on none of them."""
    return min((times_us[kind] for kind in kinds if times_us[kind] != NEVER), default=NEVER)


@lru_cache(maxsize=4096)
def cheapest_cover(
    pipeline: Pipeline, kinds: tuple[int, ...] = tuple(range(len(KINDS))), *, is_fusing: bool = True
) -> tuple[int, tuple[int, ...]] | None:
    """Return the cheapest way to run every kernel of a pipeline once, alone or in a group.

    Parameters
    ----------
    kinds
        Kinds of units that may be used, each option on whichever is fastest.

    Returns
    -------
    tuple or None
        Sum of the times in microseconds, and the options, numbers in ``pipeline.options``, by their first kernels.
        ``None`` if the kernels cannot all run, or there are too many covers to look at (`MAX_COVERS`).
    """
    n = len(pipeline.kernels)
    priced = []
    for number, one in enumerate(pipeline.options[: None if is_fusing else n]):
        time_us = option_us(one.times_us, kinds)
        if time_us != NEVER:
            priced.append((number, sum(1 << k for k in one.kernels), time_us))
    found = _cheapest_by_kernel(n, priced)
    if found is None or _can_run(pipeline, found[1]):
        return found
    return _cheapest_in_order(pipeline, priced)


def _cheapest_by_kernel(n: int, priced: Sequence[tuple[int, int, int]]) -> tuple[int, tuple[int, ...]] | None:
    """Return the cheapest cover of ``n`` kernels, in whatever order its groups run, if they can."""
    with_kernel = [[one for one in priced if one[1] >> k & 1] for k in range(n)]
    # Partial covers by the first kernel that they lack; each is reached at its lowest price first.
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    lacking: list[set[int]] = [{0}, *(set() for _ in range(n))]
    for kernel in range(n):
        for mask in lacking[kernel]:
            price, chosen = best[mask]
            for number, members, time_us in with_kernel[kernel]:
                if members & mask:
                    continue
                after = mask | members
                if after not in best:
                    if len(best) >= MAX_COVERS:
                        return None
                    lacking[_first_zero(after)].add(after)
                elif best[after][0] <= price + time_us:
                    continue
                best[after] = price + time_us, (*chosen, number)
    return best.get((1 << n) - 1)


def _can_run(pipeline: Pipeline, cover: Sequence[int]) -> bool:
    """Return whether the options of a cover can run in some order: no groups wait for each other."""
    done, left = 0, list(cover)
    while left:
        ready = [number for number in left if not _needs(pipeline, number) & ~done]
        if not ready:
            return False
        done |= sum(_members(pipeline, number) for number in ready)
        left = [number for number in left if number not in ready]
    return True


def _cheapest_in_order(
    pipeline: Pipeline, priced: Sequence[tuple[int, int, int]]
) -> tuple[int, tuple[int, ...]] | None:
    """Return the cheapest cover whose groups do not wait for each other, by sets of kernels that have run."""
    n = len(pipeline.kernels)
    needs = {number: _needs(pipeline, number) for number, _, _ in priced}
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    by_size: list[set[int]] = [{0}, *(set() for _ in range(n))]
    for size in range(n):
        for mask in by_size[size]:
            price, chosen = best[mask]
            for number, members, time_us in priced:
                after = mask | members
                if members & mask or needs[number] & ~mask:
                    continue
                if after not in best:
                    if len(best) >= MAX_COVERS:
                        return None
                    by_size[after.bit_count()].add(after)
                elif best[after][0] <= price + time_us:
                    continue
                best[after] = price + time_us, (*chosen, number)
    found = best.get((1 << n) - 1)
    return None if found is None else (found[0], tuple(sorted(found[1], key=lambda o: pipeline.options[o].kernels[0])))


def _members(pipeline: Pipeline, option: int) -> int:
    return sum(1 << k for k in pipeline.options[option].kernels)


def _needs(pipeline: Pipeline, option: int) -> int:
    """Return the kernels, as bits, that an option waits for."""
    members, found = _members(pipeline, option), 0
    for kernel in pipeline.options[option].kernels:
        for before in pipeline.predecessors[kernel]:
            found |= 1 << before
    return found & ~members


def _first_zero(mask: int) -> int:
    return ((mask + 1) & ~mask).bit_length() - 1


@lru_cache(maxsize=4096)
def demand_us(pipeline: Pipeline, kinds: tuple[int, ...], *, is_fusing: bool = True) -> int:
    """Return a time that units must spend on every instance of a pipeline at the least, in microseconds.

    It is exact unless the pipeline has too many covers; then each kernel counts with its smallest share of an option.
    """
    cover = cheapest_cover(pipeline, kinds, is_fusing=is_fusing)
    if cover is not None:
        return cover[0]
    return sum(_shares_us(pipeline, kinds, is_fusing=is_fusing))


@lru_cache(maxsize=4096)
def latency_us(pipeline: Pipeline, kinds: tuple[int, ...], *, is_fusing: bool = True) -> int:
    """Return a time that every instance of a pipeline takes at the least, with any number of units, in microseconds.

    It is exact for chains; otherwise each kernel on a path counts with its smallest share of an option.
    """
    if all(len(one) <= 1 for one in (*pipeline.successors, *pipeline.predecessors)) and len(pipeline.edges) == (
        len(pipeline.kernels) - 1
    ):
        return demand_us(pipeline, kinds, is_fusing=is_fusing)
    shares = _shares_us(pipeline, kinds, is_fusing=is_fusing)
    longest = [0] * len(shares)
    for kernel in reversed(pipeline.order):
        longest[kernel] = shares[kernel] + max((longest[after] for after in pipeline.successors[kernel]), default=0)
    return max(longest)


def _shares_us(pipeline: Pipeline, kinds: tuple[int, ...], *, is_fusing: bool) -> list[int]:
    """Return the smallest share of an option that each kernel takes; 0 for one that can run on none of the kinds."""
    found: list[list[int]] = [[] for _ in pipeline.kernels]
    for one in pipeline.options[: None if is_fusing else len(found)]:
        time_us = option_us(one.times_us, kinds)
        if time_us != NEVER:
            for kernel in one.kernels:
                found[kernel].append(time_us // len(one.kernels))
    return [min(shares, default=0) for shares in found]
