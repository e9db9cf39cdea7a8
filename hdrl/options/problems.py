"""Translation of pydantic's errors into one line, for every kind of file and every reader."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from hdrl.base.errors import readable, suggest

_EXPECTED: dict[str, Callable[[dict[str, Any]], str]] = {
    "int_type": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "int_parsing": lambda _: "a whole number",
    "float_parsing": lambda _: "a number",
    "bool_parsing": lambda _: "true or false",
    "int_parsing_size": lambda _: "a smaller whole number",
    "float_type": lambda _: "a number",
    "finite_number": lambda _: "a finite number",
    "bool_type": lambda _: "true or false",
    "string_type": lambda _: "text",
    "string_unicode": lambda _: "text of valid characters",
    "string_too_short": lambda _: "text that is not empty",
    "string_too_long": lambda context: f"at most {context['max_length']} characters",
    "string_pattern_mismatch": lambda context: _TEXTS.get(context["pattern"], f"text like {context['pattern']}"),
    "list_type": lambda _: "a list",
    "tuple_type": lambda _: "a list",
    "too_short": lambda context: f"at least {context['min_length']}",
    "too_long": lambda context: f"at most {context['max_length']}",
    "dict_type": lambda _: "an object",
    "model_type": lambda _: "an object",
    "model_attributes_type": lambda _: "an object",
    "greater_than": lambda context: f"more than {_number(context['gt'])}",
    "greater_than_equal": lambda context: f"at least {_number(context['ge'])}",
    "less_than": lambda context: f"less than {_number(context['lt'])}",
    "less_than_equal": lambda context: f"at most {_number(context['le'])}",
}
"""Expected values in words, by pydantic's type of error."""

PRINTABLE = r"^[^\p{C}\p{Zl}\p{Zp}]*$"
"""Pattern of texts without control characters and ends of lines."""

_TEXTS: dict[str, str] = {
    PRINTABLE: "text of printable characters",
    r"^[^\x00]*$": "a path without the character NUL",
    r"^[^/\\\x00]+$": "the name of a file in the same folder",
}
"""Texts that a pattern accepts, in words."""

_FROM_VALIDATOR = "problem"
"""Key in the context of a `PydanticCustomError` of ours: its message lacks nothing but the position."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The first thing that is wrong with a value."""

    path: str  # where: ``clusters[0].nodes``; empty for the whole
    text: str  # found and expected values, the position included
    n_more: int  # number of further errors

    def __str__(self) -> str:
        """Return the line."""
        if not self.n_more:
            return self.text
        return f"{self.text} (and {self.n_more} more problem{'' if self.n_more == 1 else 's'})"


def problem_of(model: type[BaseModel], error: ValidationError, whole: str = "the file") -> Problem:
    """Return the first thing that is wrong with a value.

    ``whole`` is what messages call the value itself; empty if what stands before them names it.
    """
    problems = error.errors(include_url=False)
    # A value of the wrong type within a union, or a key of a mapping, yields several entries for one position.
    n_positions = len({_path(problem["loc"]) for problem in problems})
    first = problems[0]
    return Problem(_path(first["loc"]), _Words(model, whole).describe(first), n_positions - 1)


def shown(value: object) -> str:
    """Return a value as JSON would write it, cut to a readable length."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**100:
        return "a number of more than 100 digits"
    try:
        text = json.dumps(value) if not isinstance(value, str) else repr(value[:100])
    except (TypeError, ValueError):
        text = f"a {type(value).__name__}"
    return readable(text)


def path_step(key: str | int) -> str:
    """Return the form in messages of a step into a value: ``.nodes``, ``[2]``, ``['Xeon X5570']``."""
    if isinstance(key, str) and key.isidentifier():
        return f".{readable(key)}"
    return f"[{readable(repr(key))}]"


class _Words:
    """The mistakes in a value in words."""

    def __init__(self, model: type[BaseModel], whole: str) -> None:
        self._model = model
        self._whole = whole
        self._blocks = dict(_blocks(model, ""))
        self._other_names: Mapping[str, str] = getattr(model, "other_names", {})

    def describe(self, problem: ErrorDetails) -> str:
        """Describe the error and its position."""
        kind, context, loc = problem["type"], problem.get("ctx", {}), problem["loc"]
        path = _path(loc)
        subject = path or self._whole or "it"
        if kind == "extra_forbidden":
            return self._unknown_key(loc)
        if kind == "missing":
            return f"{subject} is missing, expected {self._description(loc)}"
        if kind == "value_error":
            return str(context.get("error", problem["msg"]))
        if _FROM_VALIDATOR in context:
            return f"{path}: {problem['msg']}" if path else problem["msg"]
        if kind == "literal_error":
            return self._no_choice(problem, subject)
        if kind == "too_short" and not problem["input"]:
            return f"{subject} is empty, expected at least one entry"
        expected = _EXPECTED[kind](context) if kind in _EXPECTED else problem["msg"].removeprefix("Input should be ")
        return f"{subject} is {shown(problem['input'])}, expected {expected}"

    def _no_choice(self, problem: ErrorDetails, subject: str) -> str:
        """Name a value that is not among the choices, and the one that was meant."""
        expected = problem["ctx"]["expected"]
        choices = [choice.strip("' ") for choice in expected.replace(" or ", ", ").split(",")]
        value = problem["input"]
        hint = suggest(value, choices) if isinstance(value, str) else f"known: {', '.join(choices)}"
        if problem["loc"] and problem["loc"][-1] == "[key]":
            return f"{_path(problem['loc'][:-2])} has no selection {shown(value)}; {hint}"
        return f"{subject} is {shown(value)}; {hint}"

    def _unknown_key(self, loc: tuple[int | str, ...]) -> str:
        """Name the key that does not exist, and the one that was meant."""
        name = str(loc[-1])
        elsewhere = [path for path, model in self._blocks.items() if name in model.model_fields]
        if elsewhere:
            hint = f"it belongs {f'to {elsewhere[0]}' if elsewhere[0] else 'at the top'}"
        else:
            known = [field.alias or key for key, field in _fields_at(self._model, loc[:-1]).items()]
            aliases = {alias: key for alias, key in self._other_names.items() if key in known}
            hint = suggest(name, known)
            if not hint.startswith("did you mean") and aliases:
                close = suggest(name, aliases)
                meant = next((key for alias, key in aliases.items() if close == f"did you mean {alias!r}?"), None)
                hint = f"did you mean {meant!r}?" if meant else hint
        subject = _path(loc[:-1]) or self._whole
        return f"{subject} has no key {shown(name)}; {hint}" if subject else f"no key {shown(name)}; {hint}"

    def _description(self, loc: tuple[int | str, ...]) -> str:
        """Return the meaning of a key, in the words of the model."""
        field = _fields_at(self._model, loc[:-1]).get(str(loc[-1]))
        text = (field.description if field is not None else None) or "a value"
        return text[0].lower() + text[1:].rstrip(".")


def _blocks(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the blocks of a file with the positions where they stand."""
    yield path, model
    for name, field in model.model_fields.items():
        for kind in _kinds(field.annotation):
            if _is_model(kind):
                yield from _blocks(kind, f"{path}.{name}" if path else name)


def _fields_at(model: type[BaseModel], loc: Iterable[int | str]) -> dict[str, FieldInfo]:
    """Return the keys of the block at a position, also within lists and mappings; none where no block stands."""
    kinds: list[Any] = [model]
    for step in loc:
        kinds = [inner for kind in kinds for inner in _step(kind, step)]
    return next((dict(kind.model_fields) for kind in kinds if _is_model(kind)), {})


def _step(kind: Any, step: int | str) -> list[Any]:
    if _is_model(kind):
        field = kind.model_fields.get(step)
        return _kinds(field.annotation) if field is not None else []
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in (list, tuple) and isinstance(step, int):
        return _kinds(arguments[0])
    return _kinds(arguments[1]) if typing.get_origin(kind) is dict else []


def _kinds(annotation: Any) -> list[Any]:
    """Return the types that a type stands for: the members of a union, without their annotations."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _kinds(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [kind for one in typing.get_args(annotation) for kind in _kinds(one)]
    return [annotation]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _path(loc: Sequence[int | str]) -> str:
    return "".join(path_step(step) for step in loc if step != "[key]").removeprefix(".")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
