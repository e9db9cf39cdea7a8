"""The same options and seed give the same weights on any x86-64 processor: other ones are played on this one.

Variables make the libraries compute as on another processor, each in its own way, and code be compiled for another one;
qemu plays one entirely. Hashes that were recorded on another machine stand in `hashes.json`.

To compile everything anew takes minutes: so updates of networks stand for trainings where code is compiled for another
processor, and some trainings for all. ``HDRL_PORTABLE=all`` makes all trainings in all settings, and plays a Haswell
and an EPYC, too, which run the same code.
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

from hdrl.compiled.backends import JIT_DISABLED

HERE = Path(__file__).parent
RECORDED: dict[str, str] = json.loads((HERE / "hashes.json").read_text())
ALL = os.environ.get("HDRL_PORTABLE") == "all"

SOME = [
    "ppo-policy-pair",
    "ppo-job-pick-kernel",
    "ppo-attention",
    "a2c-job-pick",
    "reinforce-policy-pair",
    "rainbow-job-pick",
    "sac-job-pick",
    "advisor-sequence",
    "cma_es-job-index",
]
"""Of each family of algorithms and each kind of network one."""

_NO_AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"  # what NumPy chooses from: other names make it warn

LIBRARIES: dict[str, dict[str, str]] = {
    "Intel of 2013": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": _NO_AVX512,
    },
    "AMD": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Zen"},
    "one without AVX": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": f"X86_V3 {_NO_AVX512}",
    },
}
"""Variables that make libraries compute as on a processor."""

CODE: dict[str, dict[str, str]] = {
    "Intel of 2013": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
    "AMD": {"NUMBA_CPU_NAME": "znver3", "NUMBA_CPU_FEATURES": ""},
    "one without AVX": {
        "NUMBA_CPU_NAME": "nehalem",
        "NUMBA_CPU_FEATURES": "",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable",
    },
}
"""Variables that make the compiler write for it: without features of its own Numba would take those of this one."""

EMULATED = {"Haswell": "Intel of 2013", "EPYC": "Intel of 2013", "Nehalem": "one without AVX"}
"""Processors that qemu plays, by whose code they run: to compile there would take an hour."""

BY_THE_C_LIBRARY = {"cma_es-job-index"}
"""Trainings on logarithms of the C library, which has others for processors without FMA: their provenance says so."""

pytestmark = pytest.mark.skipif(
    JIT_DISABLED, reason="without a compiler torch computes, which chooses by the processor"
)


def told(variables: dict[str, str], script: str, *more: str, emulator: tuple[str, ...] = ()) -> str:
    """Return what a script prints in a process of its own."""
    words = [*emulator, sys.executable, str(HERE / script), *more]
    # Who runs the tests may have set some of these, which an emulated processor cannot follow.
    set_here = {one for processors in (LIBRARIES, CODE) for known in processors.values() for one in known}
    environment = {name: value for name, value in os.environ.items() if name not in set_here}
    done = subprocess.run(words, env=environment | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wrong(variables: dict[str, str], names: list[str]) -> dict[str, str]:
    """Return the hashes of trainings that are others than those that were recorded."""
    found: dict[str, str] = json.loads(told(variables, "trainings.py", *names))
    assert [*found] == names
    return {name: digest for name, digest in found.items() if digest != RECORDED[name]}


EMULATED_PART = [] if ALL else ["small"]
"""What processors that are emulated update: attention and recurrent layers take them minutes."""


@functools.cache
def updated(processor: str | None, *part: str) -> str:
    """Return the hash of updates by code for a processor; ``None``: for this one."""
    return told({} if processor is None else LIBRARIES[processor] | CODE[processor], "updates.py", *part)


def test_weights_are_those_of_the_machine_that_recorded_them() -> None:
    assert wrong({}, [*RECORDED]) == {}


@pytest.mark.parametrize("processor", LIBRARIES)
def test_libraries_that_compute_as_elsewhere_change_no_bit(processor: str) -> None:
    assert wrong(LIBRARIES[processor], SOME) == {}


@pytest.mark.parametrize("processor", CODE if ALL else [name for name in CODE if name != "AMD"])
def test_code_for_another_processor_changes_no_bit(processor: str) -> None:
    part = EMULATED_PART if processor == "one without AVX" else []  # which multiplies and adds in the C library
    assert updated(processor, *part) == updated(None, *part)
    if ALL:
        same = [name for name in RECORDED if processor != "one without AVX" or name not in BY_THE_C_LIBRARY]
        assert wrong(LIBRARIES[processor] | CODE[processor], same) == {}


@pytest.mark.parametrize("processor", EMULATED if ALL else ["Nehalem"])
def test_a_processor_that_is_emulated_changes_no_bit(processor: str) -> None:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        if os.environ.get("CI") == "true":
            pytest.fail("qemu-x86_64 is missing, which make emulator installs")
        pytest.skip("needs qemu-x86_64: make emulator installs it")
    code = EMULATED[processor]
    made = updated(code, *EMULATED_PART)
    assert made == updated(None, *EMULATED_PART)
    variables = {name: value for name, value in CODE[code].items() if name.startswith("NUMBA")}
    assert told(variables, "updates.py", *EMULATED_PART, emulator=(emulator, "-cpu", processor)) == made
