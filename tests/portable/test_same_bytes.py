"""The same options and seed give the same weights on any x86-64 processor: other ones are played on this one.

Variables make the libraries compute as on another processor, each in its own way; qemu plays one entirely. A hash that
was recorded on another machine stands in `hashes.json`.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch (the extra learn)")

from trainings import HASHES

from hdrl.compiled.ways import JIT_DISABLED

HERE = Path(__file__).parent

_NEW_CODE = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
_NO_AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"

PROCESSORS: dict[str, dict[str, str]] = {
    "this one": {},
    "Intel of 2013": {
        **_NEW_CODE,
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": _NO_AVX512,
    },
    "AMD": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Zen"},
    "one without AVX": {
        "NUMBA_CPU_NAME": "nehalem",
        "NUMBA_CPU_FEATURES": "",
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": _NO_AVX512,
    },
}
"""Variables by what they play."""

EMULATED = "Haswell", "EPYC", "Skylake-Client"
"""Processors that qemu plays: they make updates of small networks, and take most of the time to load torch."""

pytestmark = pytest.mark.skipif(
    JIT_DISABLED, reason="without a compiler torch computes, which chooses by the processor"
)


def told(variables: dict[str, str], script: str, *emulator: str) -> str:
    """Return what a script prints in a process of its own."""
    words = [*emulator, sys.executable, str(HERE / script)]
    done = subprocess.run(words, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def trained(variables: dict[str, str]) -> dict[str, str]:
    """Return the hashes of all trainings."""
    found: dict[str, str] = json.loads(told(variables, "trainings.py"))
    return found


@functools.cache
def here() -> dict[str, str]:
    """Return the hashes of this machine as it is."""
    return trained({})


def test_weights_are_those_of_the_machine_that_recorded_them() -> None:
    assert here() == json.loads(HASHES.read_text())


@pytest.mark.parametrize("processor", [name for name in PROCESSORS if name != "this one"])
def test_libraries_that_compute_as_elsewhere_change_no_bit(processor: str) -> None:
    assert trained(PROCESSORS[processor]) == here()


@pytest.mark.parametrize("processor", EMULATED)
def test_a_processor_that_is_emulated_gives_the_same_weights(processor: str) -> None:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        if os.environ.get("CI") == "true":
            pytest.fail("qemu-x86_64 is missing, which make emulator installs")
        pytest.skip("needs qemu-x86_64: make emulator installs it")
    # Code for any processor with AVX2 is made here and loaded there: to compile there would take an hour.
    made = told(_NEW_CODE, "updates.py")
    assert made == told({}, "updates.py")
    assert told(_NEW_CODE, "updates.py", emulator, "-cpu", processor) == made
