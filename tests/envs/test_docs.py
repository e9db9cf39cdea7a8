"""What docs/environments.md says is run, and names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hdrl.envs
from hdrl.settings.batch.envs.job_pick_options import BACKFILLINGS, COMMITMENTS, FEATURES, OBJECTIVES, REWARDS

TEXT = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sb3_contrib", reason="the extra sb3 is not installed")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL):
        exec(compile(block, "environments.md", "exec"), names)
    out = capsys.readouterr().out
    assert "mean bounded slowdown" in out
    assert "(64, 128, 8)" in out
    assert re.search(r"f4: \d+\.\d over 2 windows", out)


def test_every_choice_is_on_the_page() -> None:
    names = [*COMMITMENTS, *BACKFILLINGS, *REWARDS]
    assert [name for name in OBJECTIVES if f"`{name}`" not in TEXT] == []
    assert [name for name in names if f'`"{name}"`' not in TEXT] == []
    assert [name for name in FEATURES if f"`{name}`" not in TEXT] == []
    assert [name for name in hdrl.envs.ENVIRONMENTS if f"`{name}`" not in TEXT] == []
