"""What metrics are for: which are compared, shown and headlines, in the order that a setting says."""

from __future__ import annotations

import pytest

from hdrl.base.errors import UnknownName
from hdrl.metrics import TASK_METRICS, UNRUN, with_roles
from hdrl.setting import SETTINGS, Measures


def test_roles_keep_their_order_whatever_that_of_the_metrics_is() -> None:
    compared, shown = ("max_wait_s", "mean_wait_s", "n_jobs"), ("utilization", "n_jobs", "max_wait_s")
    measures = Measures(with_roles(TASK_METRICS, compared=compared, shown=shown, headline=("n_jobs",)))
    assert (measures.compared, measures.shown, measures.headline) == (compared, shown, ("n_jobs",))
    assert measures.unrun == UNRUN
    assert list(measures.metrics) == list(TASK_METRICS)
    assert measures.metrics["max_wait_s"].formula == TASK_METRICS["max_wait_s"].formula


def test_headlines_are_those_compared_if_none_are_named() -> None:
    measures = Measures(with_roles(TASK_METRICS, compared=("mean_wait_s",)))
    assert (measures.shown, measures.headline) == ((), ("mean_wait_s",))


def test_a_role_of_no_metric_is_told() -> None:
    with pytest.raises(UnknownName, match="no metric 'mean_wait'; did you mean 'mean_wait_s'"):
        with_roles(TASK_METRICS, compared=("mean_wait",))


def test_what_is_computed_comes_in_the_order_of_the_metrics() -> None:
    metrics = {name: TASK_METRICS[name] for name in ("n_jobs", "mean_wait_s")}
    measures = Measures(with_roles(metrics, compared=("mean_wait_s",)), lambda _: {"mean_wait_s": 2, "n_jobs": 1})
    found = measures.measure(None)
    assert list(found.items()) == [("n_jobs", 1.0), ("mean_wait_s", 2.0)]
    assert all(type(value) is float for value in found.values())


@pytest.mark.parametrize("name", SETTINGS)
def test_metrics_that_decide_say_which_side_is_better(name: str) -> None:
    measures = SETTINGS[name].measures
    assert measures.metrics[measures.compared[0]].lower_is_better is not None
    assert not [one for one in measures.compared if measures.metrics[one].is_of_whole_run]
