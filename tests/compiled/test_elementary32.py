"""Elementary functions of single precision: near the true ones, and the same bits as other processors'."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from hdrl.compiled import elementary32, quantiles

Reference = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.logaddexp(0.0, x)


REFERENCES: dict[str, tuple[Reference, float, float, float]] = {
    "exp": (np.exp, -87.3, 88.7, 2.0),
    "expm1": (np.expm1, -20.0, 88.7, 2.0),
    "log": (np.log, 1e-30, 1e3, 2.0),
    "log1p": (np.log1p, -0.99999, 1e3, 2.0),
    "tanh": (np.tanh, -10.0, 10.0, 3.0),
    "sigmoid": (sigmoid, -80.0, 80.0, 3.0),
    "softplus": (softplus, -80.0, 80.0, 3.0),
    "sin": (np.sin, -100.0, 100.0, 2.0),
}
"""By name: the true function, from where to where, and how many units in the last place it may be off."""


def of_each(function: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a compiled function of arrays."""

    @numba.njit
    def fill(x, out):  # type: ignore[no-untyped-def]
        for i in range(len(x)):
            out[i] = function(x[i])

    def apply(x: NDArray[Any]) -> NDArray[Any]:
        out = np.empty_like(x)
        fill(x, out)
        return out

    return apply


def samples(low: float, high: float) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    near = rng.normal(size=20_000) * 10.0 ** rng.uniform(-9, 0, size=20_000)
    numbers = np.concatenate([rng.uniform(low, high, 20_000), near])
    return numbers[(numbers > low) & (numbers < high)].astype(np.float32)


@pytest.mark.parametrize("name", REFERENCES)
def test_results_are_near_the_true_ones(name: str) -> None:
    reference, low, high, most = REFERENCES[name]
    x = samples(low, high)
    found, exact = of_each(getattr(elementary32, name))(x), reference(x.astype(np.float64))
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert (np.abs(found - exact) / unit).max() <= most


@pytest.mark.parametrize("name", REFERENCES)
def test_what_is_no_usual_number_gives_what_numpy_gives(name: str) -> None:
    x = np.array([0.0, np.inf, -np.inf, np.nan, -2.0, -1.0, 1.0, -1e30, 1e30], np.float32)
    if name == "sin":
        x = x[:7]
    found = of_each(getattr(elementary32, name))(x)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name][0](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_small_exponentials_are_nothing() -> None:
    assert of_each(elementary32.exp)(np.array([-87.0, -87.4, -1e30], np.float32)).tolist()[1:] == [0.0, 0.0]


def test_quantiles_are_those_of_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    shares = np.random.default_rng(0).random(20_000)
    shares[:2000] **= 20
    shares = shares[shares > 1e-300]
    np.testing.assert_allclose(of_each(quantiles.normal)(shares), special.ndtri(shares), rtol=1e-13, atol=1e-14)
    uniforms = np.random.default_rng(1).random(20_000)
    np.testing.assert_allclose(of_each(quantiles.waiting_time)(uniforms), -np.log1p(-uniforms), rtol=1e-14)


def digest() -> str:
    """Return a hash of what all functions give."""
    found = hashlib.sha256()
    for name, (_, low, high, _) in REFERENCES.items():
        found.update(of_each(getattr(elementary32, name))(samples(low, high)).tobytes())
    shares = np.random.default_rng(0).random(5000)
    for function in (quantiles.normal, quantiles.waiting_time):
        found.update(of_each(function)(shares).tobytes())
    return found.hexdigest()


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("processor", ["nehalem", "haswell", "znver3"])
def test_bits_are_those_of_other_processors(processor: str) -> None:
    code = "import test_elementary32; print(test_elementary32.digest())"
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": "",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()
