from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.base.errors import ReadError
from hdrl.settings.batch.workload import check_fits, offered_load, read_workload, shipped_workloads

FOLDER = Path(__file__).parents[4] / "workloads"
RECIPES = sorted(path.name.removesuffix(".recipe.json") for path in FOLDER.glob("*.recipe.json"))


def test_every_generated_workload_has_a_recipe():
    assert sorted(shipped_workloads()) == sorted([*RECIPES, "learning"])
    assert len(RECIPES) >= 2


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipe_makes_the_same_log(name, tmp_path, monkeypatch):
    from hdrl.launcher.main import cli

    shipped = shipped_workloads()[name]
    words = shlex.split(json.loads((FOLDER / f"{name}.recipe.json").read_text())["command"])
    assert words[0] == "hdrl"
    assert words[-1] == shipped.name
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, words[1:])
    assert result.exit_code == 0, result.output
    # The text, since the compressed bytes depend on the version of the compressor as well.
    assert gzip.decompress((tmp_path / shipped.name).read_bytes()) == gzip.decompress(shipped.read_bytes())
    assert shipped.stat().st_size < 300_000


@pytest.mark.parametrize("name", RECIPES)
def test_they_fit_the_platform_they_are_for(name, gaia):
    workload = read_workload(name, gaia)
    assert check_fits(workload, gaia) is workload
    assert workload.n_dropped == {}
    assert offered_load(workload, gaia) == pytest.approx(0.3, rel=1e-3)


def test_the_learning_workload(learning):
    workload = read_workload("learning", learning, custom=True)
    assert check_fits(workload, learning) is workload
    assert workload.steps.tolist() == read_workload("learning").steps.tolist()
    assert workload.jobs["requested_time_s"].tolist() == [5, 5]


def test_misspelt_names(learning):
    with pytest.raises(ReadError, match="no shipped workload of that name; did you mean 'learning'"):
        read_workload("lerning", learning)
    with pytest.raises(ReadError, match="no such file"):
        read_workload("lerning.json", learning)
    with pytest.raises(ReadError, match=r"unknown format, expected a name that ends in one of .swf, .swf.gz"):
        read_workload("jobs.txt", learning)
