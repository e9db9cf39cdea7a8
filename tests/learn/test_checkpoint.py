"""Model files: what they hold, and what is said when they are wrong."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import load_agent, make_agent  # noqa: E402
from hdrl.base.errors import LearningError, OutputError, ReadError, UnknownName  # noqa: E402
from hdrl.learn import checkpoint_of, load_checkpoint, save_checkpoint  # noqa: E402
from hdrl.learn.packing import pack, unpack  # noqa: E402
from hdrl.learn.spaces import check_same_spaces, space_as_json, space_from_json  # noqa: E402

BOX, DISCRETE = spaces.Box(0.0, 1.0, (4,), np.float32), spaces.Discrete(3)


def agent(name: str = "ppo", seed: int = 1):
    return make_agent(name, BOX, DISCRETE, seed=seed, hidden=(8,))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt"
    environment = {"id": "hdrl/JobPick-v0", "arguments": {"max_jobs": 128}}
    save_checkpoint(path, checkpoint_of(agent(), "ppo", environment=environment, notes={"best": 1.5}))
    return path


def test_a_model_file_says_what_it_is_and_acts_as_what_was_saved(model: Path) -> None:
    checkpoint = load_checkpoint(model)
    assert checkpoint.algorithm == "ppo"
    assert checkpoint.config["hidden"] == [8]
    assert checkpoint.environment == {"id": "hdrl/JobPick-v0", "arguments": {"max_jobs": 128}}
    assert checkpoint.notes == {"best": 1.5}
    assert checkpoint.spaces() == (BOX, DISCRETE)
    mine, loaded = agent(), load_agent(model)
    assert loaded.config == mine.config
    observations = torch.rand((50, 4), generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded.probabilities(observations, None), mine.probabilities(observations, None))
    # The random numbers go on as well.
    first, second = (one.act(observations, None, explore=True).actions for one in (mine, loaded))
    assert torch.equal(first, second)
    with pytest.raises(LearningError, match="saved without its training"):
        checkpoint.training_state()


def test_it_is_read_without_running_code_and_is_the_same_bytes_again(model: Path, tmp_path: Path) -> None:
    content = torch.load(model, weights_only=True)
    assert content["format"] == "hdrl model"
    assert json.loads(content["header"])["algorithm"] == "ppo"
    again = tmp_path / "another name.pt"
    save_checkpoint(again, load_checkpoint(model))
    assert again.read_bytes() == model.read_bytes()


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


def test_files_that_are_no_models_are_told_in_one_line(model: Path, tmp_path: Path) -> None:
    whole = model.read_bytes()
    wrong = {
        "empty.pt": (b"", "is not a model file, or a truncated one"),
        "truncated.pt": (whole[: len(whole) // 2], "is not a model file, or a truncated one"),
        "text.pt": (b"epoch,loss\n1,2\n", "is not a model file, or a truncated one"),
    }
    for name, (data, message) in wrong.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ReadError, match=message) as error:
            load_checkpoint(tmp_path / name)
        assert one_line(error).startswith(str(tmp_path / name))
    for path, message in ((tmp_path / "none.pt", "no such file, expected a model file"), (tmp_path, "is a folder")):
        with pytest.raises(ReadError, match=message):
            load_checkpoint(path)


def test_damaged_and_foreign_archives_are_told_in_one_line(model: Path, tmp_path: Path) -> None:
    flipped = bytearray(model.read_bytes())
    at = bytes(flipped).index(b"data.pkl") + 60
    flipped[at : at + 40] = b"\xff" * 40
    (tmp_path / "flipped.pt").write_bytes(flipped)
    with zipfile.ZipFile(model) as archive:
        weights = archive.read(next(name for name in archive.namelist() if name.endswith("/data/0")))
    at = model.read_bytes().index(weights)
    (tmp_path / "weight.pt").write_bytes(model.read_bytes()[:at] + b"\x5a" + model.read_bytes()[at + 1 :])
    with zipfile.ZipFile(tmp_path / "archive.pt", "w") as archive:
        archive.writestr("readme.txt", "no model")
    torch.save({"model_state_dict": {"weight": torch.zeros(3)}}, tmp_path / "foreign.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "pickled.pt")
    content = torch.load(model, weights_only=True)
    torch.save({**content, "format_version": 99}, tmp_path / "newer.pt")
    torch.save({**content, "header": "{"}, tmp_path / "header.pt")
    del content["agent"]
    torch.save(content, tmp_path / "missing.pt")
    messages = {
        "flipped.pt": "damaged",
        "weight.pt": r"damaged model file \(.*/data/0 differs from its checksum\)",
        "archive.pt": "damaged or foreign",
        "foreign.pt": "is not a model file of hdrl",
        "pickled.pt": "damaged or foreign",
        "newer.pt": "version 99, expected 1",
        "header.pt": "is a damaged model file",
        "missing.pt": "is a damaged model file",
    }
    for name, message in messages.items():
        with pytest.raises(ReadError, match=message) as error:
            load_checkpoint(tmp_path / name)
        one_line(error)


def test_a_file_that_would_grow_while_it_is_read_is_refused_unread(model: Path, tmp_path: Path) -> None:
    grows, overlaps = tmp_path / "grows.pt", tmp_path / "overlaps.pt"
    with zipfile.ZipFile(model) as file, zipfile.ZipFile(grows, "w", zipfile.ZIP_DEFLATED) as out:
        for name in file.namelist():
            out.writestr(name, file.read(name) if "data.pkl" not in name else b"0" * 50_000_000)
    assert grows.stat().st_size < 1_000_000
    with pytest.raises(ReadError, match=r"grows.pt: is compressed, expected what torch.save writes"):
        load_checkpoint(grows)

    data = bytearray(model.read_bytes())
    position = data.index(b"PK\x01\x02")  # the first entry of the directory
    data[position + 24 : position + 28] = (1 << 30).to_bytes(4, "little")
    overlaps.write_bytes(data)
    with pytest.raises(ReadError, match=r"overlaps.pt: describes tensors of more than its [0-9,]+ bytes"):
        load_checkpoint(overlaps)


def test_a_model_that_does_not_fit_is_told_in_one_line(model: Path) -> None:
    checkpoint = load_checkpoint(model)
    with pytest.raises(LearningError, match="does not fit PPO") as error:
        make_agent("ppo", BOX, DISCRETE, hidden=(16,)).load_state_dict(checkpoint.agent)
    one_line(error)
    with pytest.raises(LearningError, match="does not fit DQN"):
        agent("dqn").load_state_dict(checkpoint.agent)
    with pytest.raises(LearningError, match=r"model.pt: made for actions Discrete\(3\), but the environment's"):
        check_same_spaces((BOX, DISCRETE), (BOX, spaces.Discrete(5)), "model.pt")
    import dataclasses

    with pytest.raises(UnknownName, match="no algorithm 'pp0'; did you mean 'ppo'"):
        load_agent(dataclasses.replace(checkpoint, algorithm="pp0"))


def test_weights_alone_leave_the_rest_as_it_was(model: Path) -> None:
    other = agent(seed=5)
    generator = other.generator.get_state()
    other.load_weights(load_checkpoint(model).agent)
    observations = torch.rand((5, 4))
    assert torch.equal(other.probabilities(observations, None), agent().probabilities(observations, None))
    assert torch.equal(other.generator.get_state(), generator)


def test_nothing_half_written_is_left(tmp_path: Path, model: Path) -> None:
    before = model.read_bytes()
    bad = checkpoint_of(agent(), "ppo", notes={"bad": object()})
    with pytest.raises(LearningError, match="must be JSON"):
        save_checkpoint(model, bad)
    with pytest.raises(OutputError, match="cannot be written"):
        save_checkpoint(tmp_path / "no" / "model.pt", checkpoint_of(agent(), "ppo"))
    assert model.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_states_come_back_as_they_were(tmp_path: Path) -> None:
    record = np.zeros(3, dtype=[("start_s", "<f8"), ("cores", "<i4", (2,)), ("flag", "?")])
    record["start_s"] = [1.5, np.inf, -0.0]
    value = {
        "record": record,
        "empty": np.zeros((0, 3), dtype=np.int16),
        "scalar": np.array(7, dtype=np.uint64),
        "random": np.random.default_rng(0).bit_generator.state,
        "tensor": torch.arange(3),
        "numbers": [1, 2.5, True, None, "x", 2**127],
    }
    torch.save(pack(value), tmp_path / "state.pt")
    found = unpack(torch.load(tmp_path / "state.pt", weights_only=True))
    assert found["record"].dtype == record.dtype
    assert found["record"].tobytes() == record.tobytes()
    assert found["empty"].shape == (0, 3)
    assert found["scalar"] == 7
    assert found["scalar"].dtype == np.uint64
    assert found["random"] == value["random"]
    assert found["numbers"] == value["numbers"]
    for bad in (np.array([object()]), {1, 2}):
        with pytest.raises(LearningError, match="may not hold"):
            pack(bad)
    damaged = {**pack(record), "shape": [5]}
    with pytest.raises(LearningError, match="damaged"):
        unpack(damaged)


def test_spaces_as_json() -> None:
    low, high = np.array([[0.0, -1.0], [1.0, np.inf]], dtype=np.float32)
    uneven = spaces.Box(low, high, dtype=np.float32)
    for space in (BOX, DISCRETE):
        assert space_from_json(json.loads(json.dumps(space_as_json(space)))) == space
    assert space_from_json(space_as_json(uneven)).low.tolist() == [0.0, -1.0]
    for bad in (spaces.MultiBinary(3), spaces.Discrete(3, start=1)):
        with pytest.raises(LearningError, match="expected a"):
            space_as_json(bad)
    with pytest.raises(LearningError, match="the description of a space is wrong"):
        space_from_json({"kind": "Box"})
