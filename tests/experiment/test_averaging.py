"""``hdrl model average``: the mean of models that belong together, and one line for others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from gymnasium import spaces  # noqa: E402

from hdrl.agents.cma_es import CMAES  # noqa: E402
from hdrl.base.hashing import sha256_of_file  # noqa: E402
from hdrl.experiment.compare.comparison import Comparison, run_comparison  # noqa: E402
from hdrl.experiment.compare.summary import deciding_rows  # noqa: E402
from hdrl.experiment.run.inputs import make_sweep  # noqa: E402
from hdrl.experiment.train.averaging import average_models  # noqa: E402
from hdrl.launcher.main import cli  # noqa: E402
from hdrl.learn import checkpoint_of, load_checkpoint, save_checkpoint  # noqa: E402


def saved(path: Path, weights: list[float], jobs: str = "a", **more: str) -> str:
    agent = CMAES(spaces.Box(0, 1, (1,)), spaces.Box(-9, 9, (len(weights),)))
    agent.load_weights({"weights": np.array(weights)})
    notes: dict[str, Any] = {"trained_on": {"workload_sha256": jobs, **more}, "seed": 1}
    save_checkpoint(path, checkpoint_of(agent, "file:mine.py", environment={"id": "x"}, notes=notes))
    return str(path)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["model", "average", *words], prog_name="hdrl")


def test_the_mean_is_written_once(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "1.pt", [1, 2]), saved(tmp_path / "2.pt", [2, 4])
    out = tmp_path / "mean.pt"
    assert run(first, second, "-o", str(out)).output == f"{out}: mean of 2 models\n"
    mean = load_checkpoint(out)
    assert mean.agent["weights"].tolist() == [1.5, 3]
    hashes = [sha256_of_file(Path(path)) for path in (first, second)]
    assert mean.notes == {"trained_on": {"workload_sha256": "a"}, "n_averaged": 2, "averaged_sha256": hashes}
    again = run(first, second, "-o", str(out))
    assert (again.exit_code, "--force" in again.stderr) == (2, True)
    assert run(first, second, "--force", "-o", str(out)).exit_code == 0


def test_models_of_older_versions_say_less_of_their_jobs(tmp_path: Path) -> None:
    older, newer = saved(tmp_path / "1.pt", [1, 2]), saved(tmp_path / "2.pt", [2, 4], sketch="0" * 12)
    assert run(older, newer, "-o", str(tmp_path / "mean.pt")).exit_code == 0
    known = load_checkpoint(tmp_path / "mean.pt").notes["trained_on"]
    assert known == {"workload_sha256": "a", "sketch": "0" * 12}


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    first, other = saved(tmp_path / "1.pt", [1, 2]), saved(tmp_path / "2.pt", [1, 2], jobs="b")
    out = tmp_path / "mean.pt"
    for words, told in (
        ([first], "1 model, expected at least two"),
        ([first, other], f"{other}: trained on is "),
        ([first, saved(tmp_path / "3.pt", [1, 2, 3])], "action space is "),
        ([first, str(tmp_path / "none.pt")], "no such file"),
    ):
        result = run(*words, "-o", str(out))
        assert (result.exit_code, told in result.stderr, result.stderr.count("\n")) == (2, True, 1), result.stderr
    assert not out.exists()


def test_a_comparison_with_the_trainings_counts_them_in_the_interval_of_the_average(tmp_path: Path) -> None:
    pytest.importorskip("scipy", reason="needs scipy (the extra report)")
    (tmp_path / "t").mkdir()
    draw = np.random.default_rng(0)
    for number in range(4):
        agent = CMAES(spaces.Box(0, 1, (1,)), spaces.Box(-9, 9, (24,)))
        agent.load_weights({"weights": draw.normal(0, 1, 24)})
        environment = {"id": "hdrl/JobIndex-v0", "arguments": {"form": "additive"}}
        notes = {"trained_on": {"workload_sha256": "a"}}
        save_checkpoint(
            tmp_path / "t" / f"{number}.pt", checkpoint_of(agent, "cma_es", environment=environment, notes=notes)
        )
    average_models(sorted((tmp_path / "t").glob("*.pt")), tmp_path / "avg.pt")
    given: dict[str, Any] = {"platform": "homogeneous:16", "loads": [0.8], "windows": {"length": 60, "count": 8}}
    given |= {"energy": False, "metrics": ["mean_bounded_slowdown"], "resamples": 500}

    def compared(*candidates: str) -> Comparison:
        out = tmp_path / str(len(candidates))
        return run_comparison(
            make_sweep(given | {"candidates": list(candidates)}, folder=tmp_path), out=out, n_workers=1
        )

    alone, both = compared("avg.pt"), compared("avg.pt", "trainings=t/*.pt")
    (of_alone,), (of_both, _) = (deciding_rows(one.rows, one.metric) for one in (alone, both))
    assert (of_alone.n_averaged, of_both.n_averaged) == (0, 4)
    assert of_both.ratio == of_alone.ratio
    assert of_both.ratio_low < of_alone.ratio_low < of_alone.ratio_high < of_both.ratio_high
    assert "over 8 windows and the 4 trainings that it averages" in both.verdicts[0]
    told = {caution.text.partition(":")[0] for caution in both.cautions if caution.kind == "few-trainings"}
    assert told == {"avg.pt is the result of 4 trainings", "trainings is the result of 4 trainings"}
