"""Build hdrl with setuptools in a copy, so that an install leaves nothing in the checkout, and finds nothing old there.

An editable install (``make``) is setuptools' own: it has to refer to the checkout.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import build_editable, get_requires_for_build_editable, prepare_metadata_for_build_editable

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_PACKAGE = ("agents", "experiments", "hdrl", "launcher", "platforms", "workloads")
_BESIDE = ("benchmarks", "docker", "docs", "examples", "tests")

# Python cached this module in the checkout when it imported it.
if __spec__ is not None and __spec__.cached:
    _cached = Path(__spec__.cached)
    _cached.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the folder holds more
        _cached.parent.rmdir()


@contextlib.contextmanager
def _in_a_copy() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="hdrl-build-") as folder:
        copy = Path(folder) / "hdrl"
        copy.mkdir()
        for path in before.iterdir():  # a checkout also holds environments and results
            if path.is_file():
                shutil.copy2(path, copy)
            elif path.name in (*_PACKAGE, *_BESIDE):
                shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        os.chdir(copy)
        try:
            yield
        finally:
            os.chdir(before)


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Build a wheel into a folder, and return its name."""
    with _in_a_copy():
        name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Build an sdist into a folder, and return its name."""
    with _in_a_copy():
        name: str = build_meta.build_sdist(sdist_directory, config_settings)
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: object = None) -> str:
    """Write the metadata of the wheel into a folder, and return its name."""
    with _in_a_copy():
        name: str = build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return name
