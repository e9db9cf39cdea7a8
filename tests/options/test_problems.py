"""Messages stay one readable line, whatever the names in them are."""

import difflib
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from hdrl.base.errors import ReadError, UnknownName, suggest
from hdrl.options.problems import problem_of


class Leaf(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    number: int = 0


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    leaves: list[Leaf] = []
    named: dict[str, Leaf | None] = {}


def problem(data: object, whole: str = "the file") -> str:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(data)
    return str(problem_of(Whole, caught.value, whole))


@pytest.mark.parametrize(
    ("data", "whole", "message"),
    [
        ({"leaves": [{"numbr": 1}]}, "the file", "leaves[0] has no key 'numbr'; did you mean 'number'?"),
        ({"named": {"a b": {"nmber": 1}}}, "the file", "named['a b'] has no key 'nmber'; did you mean 'number'?"),
        ({"named": {"a": {"number": "x"}}}, "the file", "named.a.number is 'x', expected a whole number"),
        ({"leafs": []}, "the file", "the file has no key 'leafs'; did you mean 'leaves'?"),
        ({"leafs": []}, "", "no key 'leafs'; did you mean 'leaves'?"),
    ],
)
def test_the_place_and_the_nearest_key_are_told_within_lists_and_mappings(data: object, whole: str, message: str):
    assert problem(data, whole).startswith(message)


@pytest.mark.parametrize("name", ["x" * 10_000, "a\nb\x1b[2J", "\ud800"])
def test_foreign_names_are_cut_and_escaped(name: str):
    lines = [
        problem({name: 1}),
        problem({"named": {name: {"number": name}}}),
        str(UnknownName("policy", name, ["first"])),
        str(UnknownName("policy", "first", [name, f"{name}y"])),
        str(ReadError(Path(name), "no such file")),
    ]
    for line in lines:
        assert line.isprintable()
        assert len(line) < 600
        line.encode()


def test_few_of_very_many_names_are_compared(monkeypatch: pytest.MonkeyPatch):
    compared = []
    whole = difflib.get_close_matches
    monkeypatch.setattr(
        difflib, "get_close_matches", lambda name, names, **kw: compared.append(len(names)) or whole(name, names, **kw)
    )
    known = [f"profile_{i}" for i in range(20_000)]
    assert suggest("prof1le_777x", [*known, "prof1le_777"]) == "did you mean 'prof1le_777'?"
    assert suggest("x" * 100_000, known).startswith("known: profile_0, ")
    assert sum(compared) <= 1000
