"""Sequences of ids pass recurrent layers, there and back: the entries into compiled code.

Ids have frozen embeddings. A layer reads them from both sides, another one encodes what was read; both are LSTMs. The
sequences lie one behind the other, a row for each id, so that nothing is padded. What ids give to the gates is computed
once for each id. Loops run over gates or units, which lie side by side: they become vectors, and no sum is reordered.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.compiled import elementary32
from hdrl.compiled.cache import cache_folder
from hdrl.compiled.fma import fma
from hdrl.compiled.jit import entry_in, jit

N_IDS = 64
"""Number of different ids; 0 is none."""

EMBEDDED, READ, ENCODED, N_WAVES = 16, 50, 16, 8
"""Numbers of an id, units of either direction of the reader, of the encoder, and waves of the time."""

N_GATES, N_ENCODER_GATES = 4 * READ, 4 * ENCODED

# Where the parts of a layer's weights begin, as torch has them: those of the inputs, of the units before, two biases.
_OF_UNITS = N_GATES * EMBEDDED
_BIASES = _OF_UNITS + N_GATES * READ
_ONE_WAY = _BIASES + 2 * N_GATES
_ENCODER = 2 * _ONE_WAY
_ENCODER_UNITS = _ENCODER + N_ENCODER_GATES * 2 * READ
_ENCODER_BIASES = _ENCODER_UNITS + N_ENCODER_GATES * ENCODED
N_WEIGHTS = _ENCODER_BIASES + 2 * N_ENCODER_GATES
"""Weights of the reader forwards, of the reader backwards, and of the encoder."""

N_TURNED = 2 * N_GATES * READ + N_ENCODER_GATES * (2 * READ + ENCODED)
"""Those weights that are laid out by inputs on the way there."""

WAVE = np.float32(5.0)
"""Height of the waves that time is shown by."""

_entry = entry_in(
    cache_folder("hdrl-recurrent", [Path(__file__)]),
    "compiling recurrent layers (the first time only, some seconds)",
)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_sigmoid, _tanh, _sin = elementary32.sigmoid, elementary32.tanh, elementary32.sin


@_entry
def find_sequences(observations, slots, position, first, starts, ids):
    """Find the observations that differ, and lay their ids one behind the other.

    ``slots``, filled with -1, is a hash table: a power of two, above the number of observations. ``position`` says
    which of those that differ each observation is, ``first`` which observation each of them was first. The ids of
    number ``k`` are ``ids[starts[k]:starts[k + 1]]``, at least one. Return how many differ.
    """
    n, last, n_found = len(observations), len(slots) - 1, 0
    starts[0] = 0
    for i in range(n):
        mine = observations[i]
        key = np.int64(1469598103934665603)
        for k in range(len(mine)):
            key = (key ^ np.int64(np.float32(mine[k]).view(np.int32))) * np.int64(1099511628211)
        slot = (key ^ (key >> np.int64(32))) & last
        while slots[slot] >= 0 and not _are_equal(mine, observations[first[slots[slot]]]):
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot], first[n_found], at = n_found, i, starts[n_found]
            n_ids = 0
            for k in range(1, len(mine)):
                n_ids += mine[k] >= _ONE
            for k in range(max(n_ids, 1)):
                ids[at + k] = min(max(np.int64(mine[1 + k]), 0), N_IDS - 1)
            n_found += 1
            starts[n_found] = at + max(n_ids, 1)
        position[i] = slots[slot]
    return n_found


@jit
def _are_equal(some, other):
    n = 0
    while n < len(some) and some[n] == other[n]:
        n += 1
    return n == len(some)


# The way there


@jit
def _turn(weights, first, n_in, n_out, turned, at):
    """Lay weights out by inputs; they are given output by output."""
    for i in range(n_in):
        for o in range(n_out):
            turned[at + i * n_out + o] = weights[first + o * n_in + i]


@cache
def _adding(n: int) -> Any:
    """Return the compiled function that adds products of rows of ``n`` weights and single numbers."""

    @jit
    def add(sums, weights, at, xs, n_xs):
        """Add ``xs[k]`` times the row of weights that begins at ``at + k * n``, for all ``k``."""
        for k in range(0, n_xs - n_xs % 4, 4):
            x0, x1, x2, x3 = xs[k], xs[k + 1], xs[k + 2], xs[k + 3]
            begin = at + k * n
            w0, w1 = weights[begin : begin + n], weights[begin + n : begin + 2 * n]
            w2, w3 = weights[begin + 2 * n : begin + 3 * n], weights[begin + 3 * n : begin + 4 * n]
            for o in range(n):
                sums[o] = fma(x3, w3[o], fma(x2, w2[o], fma(x1, w1[o], fma(x0, w0[o], sums[o]))))
        for k in range(n_xs - n_xs % 4, n_xs):
            x, w = xs[k], weights[at + k * n : at + (k + 1) * n]
            for o in range(n):
                sums[o] = fma(x, w[o], sums[o])

    return add


@cache
def _stepping(n: int) -> Any:
    """Return the compiled function that makes a step of an LSTM of ``n`` units."""

    @jit
    def step(gates, before, cells, shown, units):
        """Write the gates, the cells, what these show (their tanh) and the units; ``gates`` holds what goes in."""
        for u in range(2 * n):
            gates[u] = _sigmoid(gates[u])
        for u in range(2 * n, 3 * n):
            gates[u] = _tanh(gates[u])
        for u in range(3 * n, 4 * n):
            gates[u] = _sigmoid(gates[u])
        for u in range(n):
            cells[u] = gates[n + u] * before[u] + gates[u] * gates[2 * n + u]
        for u in range(n):
            shown[u] = _tanh(cells[u])
        for u in range(n):
            units[u] = gates[3 * n + u] * shown[u]

    return step


@cache
def _stepping_back(n: int) -> Any:
    """Return the compiled function that follows `_stepping` with gradients."""

    @jit
    def step_back(gates, before, shown, by_units, by_cells, by_gates):
        """Write the gradients by what went into the gates, and by the cells before in place of those by the cells."""
        for u in range(n):
            i, f, g, o = gates[u], gates[n + u], gates[2 * n + u], gates[3 * n + u]
            by_cell = by_cells[u] + by_units[u] * o * (_ONE - shown[u] * shown[u])
            by_gates[u] = by_cell * g * i * (_ONE - i)
            by_gates[n + u] = by_cell * before[u] * f * (_ONE - f)
            by_gates[2 * n + u] = by_cell * i * (_ONE - g * g)
            by_gates[3 * n + u] = by_units[u] * shown[u] * o * (_ONE - o)
            by_cells[u] = by_cell * f

    return step_back


@cache
def _collecting(n: int) -> Any:
    """Return the compiled function that adds the gradients by the weights that ``n`` units go in by."""

    @jit
    def collect(by_gates, n_gates, rows, n_rows, to_gates, units, to_units, first, gradients, at):
        """Add the products of all gates of some rows and ``n`` units of rows beside them, from the ``first`` on."""
        n_full = n_rows - n_rows % 4
        for m in range(0, n_full, 4):
            r0, r1, r2, r3 = rows[m], rows[m + 1], rows[m + 2], rows[m + 3]
            g0, g1 = by_gates[r0 + to_gates], by_gates[r1 + to_gates]
            g2, g3 = by_gates[r2 + to_gates], by_gates[r3 + to_gates]
            x0, x1 = units[r0 + to_units, first : first + n], units[r1 + to_units, first : first + n]
            x2, x3 = units[r2 + to_units, first : first + n], units[r3 + to_units, first : first + n]
            for gate in range(n_gates):
                sums = gradients[at + gate * n : at + (gate + 1) * n]
                y0, y1, y2, y3 = g0[gate], g1[gate], g2[gate], g3[gate]
                for u in range(n):
                    sums[u] = fma(y3, x3[u], fma(y2, x2[u], fma(y1, x1[u], fma(y0, x0[u], sums[u]))))
        for m in range(n_full, n_rows):
            mine, x = by_gates[rows[m] + to_gates], units[rows[m] + to_units, first : first + n]
            for gate in range(n_gates):
                sums, y = gradients[at + gate * n : at + (gate + 1) * n], mine[gate]
                for u in range(n):
                    sums[u] = fma(y, x[u], sums[u])

    return collect


_add_gates, _add_encoder_gates = _adding(N_GATES), _adding(N_ENCODER_GATES)
_add_read, _add_both, _add_encoded = _adding(READ), _adding(2 * READ), _adding(ENCODED)
_collect_read, _collect_both, _collect_encoded = _collecting(READ), _collecting(2 * READ), _collecting(ENCODED)
_read_step, _encode_step = _stepping(READ), _stepping(ENCODED)
_read_back, _encode_back = _stepping_back(READ), _stepping_back(ENCODED)


@_entry
def read(
    observations, first, starts, ids, embedding, waves, weights, of_ids, turned, gates, cells, shown, units,
    encoder_gates, encoder_cells, encoder_shown, encoder_units, seen,
):  # fmt: skip
    """Write the encoding of each sequence: the last output of the encoder, and the time as sines.

    ``of_ids`` and ``turned`` are room. What the way back needs stays in ``gates`` (shape ``(2, n_ids, N_GATES)``),
    ``cells``, ``shown`` (``(2, n_ids + 1, READ)``; their last rows are 0), ``units`` (``(n_ids, 2 * READ)``), and in
    those of the encoder.
    """
    n_rows = len(ids)
    for way in range(2):
        at = way * _ONE_WAY
        _turn(weights, at + _OF_UNITS, READ, N_GATES, turned, way * N_GATES * READ)
        _give_ids(ids, embedding, weights, at, of_ids[way])
    at_encoder = 2 * N_GATES * READ
    _turn(weights, _ENCODER, 2 * READ, N_ENCODER_GATES, turned, at_encoder)
    at_units = at_encoder + 2 * READ * N_ENCODER_GATES
    _turn(weights, _ENCODER_UNITS, ENCODED, N_ENCODER_GATES, turned, at_units)
    for k in range(len(starts) - 1):
        low, high = starts[k], starts[k + 1]
        for way in range(2):
            before = n_rows
            for step in range(high - low):
                row = low + step if way == 0 else high - 1 - step
                mine, of_id = gates[way, row], of_ids[way, ids[row]]
                for gate in range(N_GATES):
                    mine[gate] = of_id[gate]
                if step > 0:
                    of_before = units[before, way * READ : (way + 1) * READ]
                    _add_gates(mine, turned, way * N_GATES * READ, of_before, READ)
                here = units[row, way * READ : (way + 1) * READ]
                _read_step(mine, cells[way, before], cells[way, row], shown[way, row], here)
                before = row
        before = n_rows
        for row in range(low, high):
            mine = encoder_gates[row]
            _add_biases(mine, weights)
            _add_encoder_gates(mine, turned, at_encoder, units[row], 2 * READ)
            if before < n_rows:
                _add_encoder_gates(mine, turned, at_units, encoder_units[before], ENCODED)
            here = encoder_units[row]
            _encode_step(mine, encoder_cells[before], encoder_cells[row], encoder_shown[row], here)
            before = row
        _show(encoder_units[before], observations[first[k], 0], waves, seen[k])


@jit
def _add_biases(gates, weights):
    for gate in range(N_ENCODER_GATES):
        gates[gate] = weights[_ENCODER_BIASES + gate] + weights[_ENCODER_BIASES + N_ENCODER_GATES + gate]


@jit
def _show(units, time, waves, seen):
    for unit in range(ENCODED):
        seen[unit] = units[unit]
    for wave in range(N_WAVES):
        seen[ENCODED + wave] = WAVE * _sin(time * waves[wave])


@jit
def _give_ids(ids, embedding, weights, at, of_ids):
    """Write the part of each id in the gates of a direction of the reader, both biases included."""
    is_known = np.int64(0)
    for row in range(len(ids)):
        one = np.int64(1) << ids[row]
        if is_known & one == 0:
            is_known |= one
            mine, vector = of_ids[ids[row]], embedding[ids[row]]
            for gate in range(N_GATES):
                bias = at + _BIASES + gate
                total = weights[bias] + weights[bias + N_GATES]
                for k in range(EMBEDDED):
                    total = fma(weights[at + gate * EMBEDDED + k], vector[k], total)
                mine[gate] = total


@_entry
def read_back(
    starts, ids, embedding, weights, gates, cells, shown, units, encoder_gates, encoder_cells, encoder_shown,
    encoder_units, by_seen, by_gates, by_encoder_gates, by_units, by_unit, by_cell, by_ids, rows, gradients,
):  # fmt: skip
    """Write the gradients by the weights from those by what `read` wrote; ``by_gates`` to ``rows`` are room."""
    n_rows = len(ids)
    by_ids[:] = _ZERO
    by_units[:] = _ZERO
    gradients[:] = _ZERO
    for k in range(len(starts) - 1):
        low, high = starts[k], starts[k + 1]
        unit, cell = by_unit[:ENCODED], by_cell[:ENCODED]
        for u in range(ENCODED):
            unit[u], cell[u] = by_seen[k, u], _ZERO
        for row in range(high - 1, low - 1, -1):
            before, mine = row - 1 if row > low else n_rows, by_encoder_gates[row]
            _encode_back(encoder_gates[row], encoder_cells[before], encoder_shown[row], unit, cell, mine)
            unit[:] = _ZERO
            _add_encoded(unit, weights, _ENCODER_UNITS, mine, N_ENCODER_GATES)
            _add_both(by_units[row], weights, _ENCODER, mine, N_ENCODER_GATES)
        for way in range(2):
            at_units, mine, last = way * _ONE_WAY + _OF_UNITS, by_gates[way], high - 1 if way == 0 else low
            unit, cell = by_unit[:READ], by_cell[:READ]
            unit[:] = _ZERO
            cell[:] = _ZERO
            for step in range(high - low):
                row = last - step if way == 0 else last + step
                before = n_rows if step == high - low - 1 else (row - 1 if way == 0 else row + 1)
                for u in range(READ):
                    unit[u] += by_units[row, way * READ + u]
                _read_back(gates[way, row], cells[way, before], shown[way, row], unit, cell, mine[row])
                unit[:] = _ZERO
                _add_read(unit, weights, at_units, mine[row], N_GATES)
    _collect_all(starts, units, encoder_units, by_gates, by_encoder_gates, rows, gradients)
    for way in range(2):
        _take_ids(ids, embedding, by_gates[way], by_ids[way], gradients, way * _ONE_WAY)


@jit
def _collect_all(starts, units, encoder_units, by_gates, by_encoder_gates, rows, gradients):
    """Add the gradients by all weights but those that ids go in by."""
    n_rows = len(rows)
    for row in range(n_rows):
        rows[row] = row
    _collect_both(by_encoder_gates, N_ENCODER_GATES, rows, n_rows, 0, units, 0, 0, gradients, _ENCODER)
    n = 0
    for k in range(len(starts) - 1):
        for row in range(starts[k] + 1, starts[k + 1]):
            rows[n] = row  # has one before it, which has it behind itself
            n += 1
    _collect_encoded(by_encoder_gates, N_ENCODER_GATES, rows, n, 0, encoder_units, -1, 0, gradients, _ENCODER_UNITS)
    _collect_read(by_gates[0], N_GATES, rows, n, 0, units, -1, 0, gradients, _OF_UNITS)
    _collect_read(by_gates[1], N_GATES, rows, n, -1, units, 0, READ, gradients, _ONE_WAY + _OF_UNITS)
    biases = gradients[_ENCODER_BIASES : _ENCODER_BIASES + N_ENCODER_GATES]
    for row in range(n_rows):
        for gate in range(N_ENCODER_GATES):
            biases[gate] += by_encoder_gates[row, gate]
    for gate in range(N_ENCODER_GATES):
        gradients[_ENCODER_BIASES + N_ENCODER_GATES + gate] = biases[gate]


@jit
def _take_ids(ids, embedding, by_gates, by_ids, gradients, at):
    """Follow `_give_ids` with gradients."""
    is_known = np.int64(0)
    for row in range(len(ids)):
        mine, of_row = by_ids[ids[row]], by_gates[row]
        for gate in range(N_GATES):
            mine[gate] += of_row[gate]
    for row in range(len(ids)):
        one = np.int64(1) << ids[row]
        if is_known & one == 0:
            is_known |= one
            mine, vector = by_ids[ids[row]], embedding[ids[row]]
            for gate in range(N_GATES):
                for k in range(EMBEDDED):
                    gradients[at + gate * EMBEDDED + k] = fma(
                        mine[gate], vector[k], gradients[at + gate * EMBEDDED + k]
                    )
                gradients[at + _BIASES + gate] += mine[gate]
    for gate in range(N_GATES):
        gradients[at + _BIASES + N_GATES + gate] = gradients[at + _BIASES + gate]
