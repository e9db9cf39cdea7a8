"""Whatever a provenance holds, a report says what it can and does not fail."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdrl.figures.figure import Run
from hdrl.report.page.tables import origin_tables

pytest.importorskip("jinja2", reason="reports need jinja2")


@pytest.mark.parametrize("odd", [None, 1, True, 1.5, "text", [], [1, "a"], {"numpy": None}, {"numpy": [1]}, {"a": {}}])
@pytest.mark.parametrize("key", ["versions", "platform", "workload", "agent", "seed"])
def test_odd_values_are_no_error(tmp_path: Path, key: str, odd: Any):
    run = Run("a", tmp_path, None, None, None, {}, None, {}, {}, None)
    (table,) = origin_tables([replace(run, provenance={key: odd})])
    assert table.rows[0].cells[0].text == tmp_path.name
