"""Tools with which the kernel of any setting is compiled.

A kernel has a state, which is one table of arrays (`hdrl.compiled.fields`), and functions. Those that Python calls are
marked by an *entry*, which has a cache of its own on disk, named after the sources (`cache_folder`); those that only
other compiled functions call by `jit`. An environment is a tuple of arrays, and a batch of environments the same tuple
with an axis more in front: the functions know only one environment, and a loop moves on from row to row. ::

    from pathlib import Path
    from typing import Annotated, NamedTuple

    import numpy as np
    from numpy.typing import NDArray

    from hdrl.compiled.borrow import borrow, take_as
    from hdrl.compiled.borrowed import Borrowed
    from hdrl.compiled.cache import cache_folder
    from hdrl.compiled.fields import first_row_of, new_arrays, own, repeated, shared
    from hdrl.compiled.jit import entry_in, jit
    from hdrl.compiled.rows import moved_to

    class State(NamedTuple):
        now_s: Annotated[NDArray[np.float64], own(np.float64, "one", is_restored=True)]
        n_served: Annotated[NDArray[np.int64], own(np.int64, "n_desks", is_restored=True)]
        rates: Annotated[NDArray[np.float64], shared(np.float64, "n_desks")]

    def new_state() -> State:
        return new_arrays(State, {"one": 1, "n_desks": 3}, {"rates": np.array([1.0, 2.0, 4.0])})

    entry = entry_in(cache_folder("hdrl-example", [Path(__file__)]))
    batch_at, first_row = take_as(lambda: repeated(new_state(), 1)), first_row_of(State)

    @jit
    def serve(state, desk):
        state.now_s[0] += 1.0 / state.rates[desk]
        state.n_served[desk] += 1

    @entry
    def step(addresses, desks):
        batch = batch_at(addresses)
        state = borrow(first_row(batch))
        for row in range(len(desks)):
            state = moved_to(state, batch, row)
            serve(state, desks[row])

    batch = repeated(new_state(), 2)
    step(Borrowed(batch).addresses, np.array([0, 2]))
    print(batch.now_s[:, 0].tolist(), batch.n_served.tolist())  # [1.0, 0.25] [[1, 0, 0], [0, 0, 1]]

Their code is loaded without Numba (`bare`). An environment's steps need no such loop: `serving` has it for all kernels,
with threads that share the rows of a batch (`team`), and what every step begins and ends with (`counts`). Beside these
there are heaps (`heap`), sets of bits (`bits`), random numbers (`twister`, `lehmer`), and small layers of networks
(`dense`). All of it runs in three ways (`ways`): fast, by nothing but what Numba
documents, and as plain Python;
results are the same.
"""
