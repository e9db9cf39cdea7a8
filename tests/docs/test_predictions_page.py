"""What docs/predictions.md and docs/generalist.md say holds."""

import json
import re
from pathlib import Path

from hdrl.experiment.run.inputs import parse_options
from hdrl.settings.batch.named_policies import BatchPolicies
from hdrl.settings.batch.policies.indexed import IndexKind, shipped_index
from hdrl.settings.batch.policies.pairs import read_pair
from hdrl.settings.batch.predict.predictors import PREDICTORS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "predictions.md").read_text(encoding="utf-8")


def test_every_predictor_and_every_name_on_the_page_exists():
    assert [name for name in PREDICTORS if f"| `{name}` |" not in PAGE] == []
    named = re.findall(r"`((?:sjf|saf|fcfs)\+easy[^`]*)`", PAGE)
    assert len(named) >= 3
    for name in named:
        assert read_pair(name).name == name
    assert "heuristics@geo" in BatchPolicies().groups()


def test_the_options_are_options():
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.S)
    options = parse_options(json.loads(text), where="page", folder=Path())
    known = set(IndexKind.__dataclass_fields__) | {"tail", "more_logs"}
    assert set(options.learning.arguments) <= known
    assert options.learning.environment == "job_index"


def test_the_generalist_is_what_its_page_says():
    page = (DOCS / "generalist.md").read_text(encoding="utf-8")
    assert "@" not in re.sub(r"`[^`]*`", "", page)
    policy = shipped_index("es-generalist")
    assert policy.rule.has_gate
    assert len(policy.rule.weights) == 24
    assert BatchPolicies().peer_group("es-generalist") == "heuristics@geo"
