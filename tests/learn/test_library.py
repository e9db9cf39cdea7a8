"""What was learned for configurations: the nearest one decides, and is looked up only when it changes."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import make_agent  # noqa: E402
from hdrl.base.errors import LearningError  # noqa: E402
from hdrl.learn.library import Specialist, WeightSwitch, nearest, specialists_of, with_specialists  # noqa: E402
from hdrl.testing.toys import ShortestRowEnvs  # noqa: E402


def agent(seed: int):
    envs = ShortestRowEnvs(1)
    return make_agent("dqn", envs.single_observation_space, envs.single_action_space, seed=seed, hidden=[4])


def test_the_nearest_is_the_first_of_those_that_are_equally_near() -> None:
    points = [(0.0, 1.0), (2.0, 1.0), (1.0, 1.0, 0.0)]
    assert nearest((0.9, 1.0), points) == 0
    assert nearest((1.0, 1.0), points) == 0
    assert nearest((1.1, 1.0), points) == 1
    assert nearest((5.0, 5.0, 5.0), points) == 2
    assert nearest((1.0,), points) == 0  # nobody is like it


def test_weights_change_when_another_configuration_is_in_force() -> None:
    one, other, playing = agent(1), agent(2), agent(3)
    specialists = [Specialist((float(k),), made.state_dict()["modules"]) for k, made in enumerate((one, other))]
    position = [0.2]
    switch = WeightSwitch(playing, specialists, lambda: position, "m.pt")
    switch()
    weights = [next(iter(made.network.parameters())) for made in (one, other, playing)]
    assert torch.equal(weights[2], weights[0])
    with torch.no_grad():
        weights[2] += 1.0
    switch()
    assert not torch.equal(weights[2], weights[0]), "nothing is loaded while nothing changes"
    position[0] = 0.8
    switch()
    assert torch.equal(weights[2], weights[1])


def test_what_does_not_fit_is_told() -> None:
    state = with_specialists({}, [Specialist((0.0,), {"network": {}})])
    assert with_specialists({"a": 1}, []) == {"a": 1}
    assert specialists_of({}, "m.pt") == []
    with pytest.raises(LearningError, match=r"^m\.pt: configuration 0: the saved weights do not fit DQN"):
        WeightSwitch(agent(1), specialists_of(state, "m.pt"), lambda: (0.0,), "m.pt")()
    for damaged in ([{"point": ["far"], "modules": {}}], [{"modules": {}}], [{"point": [1.0], "modules": 3}], [7], 7):
        with pytest.raises(LearningError, match=r"^m\.pt: its configurations are damaged"):
            specialists_of({"configurations": damaged}, "m.pt")
