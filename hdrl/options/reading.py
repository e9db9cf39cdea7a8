"""From what a file holds to options: every mistake in it is one line."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hdrl.errors import OptionsError, suggest

M = TypeVar("M", bound=BaseModel)

_EXPECTED: dict[str, Callable[[dict[str, Any]], str]] = {
    "int_type": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "int_parsing_size": lambda _: "a smaller whole number",
    "float_type": lambda _: "a number",
    "finite_number": lambda _: "a finite number",
    "bool_type": lambda _: "true or false",
    "string_type": lambda _: "text",
    "string_unicode": lambda _: "text of valid characters",
    "string_too_short": lambda _: "text that is not empty",
    "string_pattern_mismatch": lambda _: "a path without the character NUL",
    "list_type": lambda _: "a list",
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
"""What was expected instead, by pydantic's type of error."""


def validated(model: type[M], data: object, where: str, changed: Iterable[str] = ()) -> M:
    """Return what a JSON file holds as options, or say its first mistake in a line.

    Parameters
    ----------
    model
        What the file may hold.
    data
        What it holds.
    where
        Name of the source for messages.
    changed
        Keys that the command line has changed, for messages.

    Raises
    ------
    OptionsError
        If a key or value is wrong.
    """
    if not isinstance(data, Mapping):
        raise OptionsError(f"{where}: holds {_shown(data)}, expected an object of options")
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        raise OptionsError(_Problems(model).first_line(error, where, changed)) from None


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a file.

    Parameters
    ----------
    model
        What the file may hold.
    """
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def override(data: dict[str, Any], text: str) -> str:
    """Apply one ``key.path=value`` and return the key.

    Parameters
    ----------
    data
        What is changed.
    text
        The change; the value is JSON, or else text.

    Raises
    ------
    OptionsError
        If it is no change, or a block on the way is a value.
    """
    key, separator, value = text.partition("=")
    key = key.strip()
    names = key.split(".")
    if not separator or not all(names):
        raise OptionsError(
            f"--set {_clean(text)}: expected KEY=VALUE, for instance pybatsim.agent.policy_pair=first-random"
        )
    block = data
    for depth, name in enumerate(names[:-1], start=1):
        inner = block.setdefault(name, {})
        if not isinstance(inner, dict):
            raise OptionsError(
                f"--set {_clean(key)}: {_clean('.'.join(names[:depth]))} is {_shown(inner)}, it has no keys"
            )
        block = inner
    block[names[-1]] = _value(value)
    return key


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class _Problems:
    """The mistakes of a file in words, from pydantic's reports.

    Parameters
    ----------
    model
        What the file may hold.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self._blocks = dict(_blocks(model, ""))
        self._other_names: Mapping[str, str] = getattr(model, "other_names", {})

    def first_line(self, error: ValidationError, where: str, changed: Iterable[str]) -> str:
        """Say the first mistake in one line, and how many more there are."""
        problems = error.errors(include_url=False)
        # A value of the wrong type within a union, or a key of a mapping, yields several entries for one place.
        places = {_path(problem["loc"]) for problem in problems}
        first = problems[0]
        path = _path(first["loc"])
        if any(path == key or path.startswith((f"{key}.", f"{key}[")) for key in changed):
            where = "--set"
        more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
        return f"{where}: {self._describe(first, path)}{more}"

    def _describe(self, problem: ErrorDetails, path: str) -> str:
        kind = problem["type"]
        context = problem.get("ctx", {})
        if kind == "extra_forbidden":
            return self._unknown_key(problem["loc"])
        if kind == "missing":
            return f"{path} is missing, expected {self._description(path)}"
        if kind == "value_error":
            return str(context.get("error", problem["msg"]))
        if kind == "literal_error":
            choices = [choice.strip("' ") for choice in context["expected"].replace(" or ", ", ").split(",")]
            value = problem["input"]
            hint = suggest(value, choices) if isinstance(value, str) else f"known: {', '.join(choices)}"
            if problem["loc"][-1] == "[key]":
                return f"{_path(problem['loc'][:-2])} has no selection {_shown(value)}; {hint}"
            return f"{path} is {_shown(value)}; {hint}"
        if kind == "too_short" and not problem["input"]:
            return f"{path} is empty, expected at least one entry"
        expected = _EXPECTED[kind](context) if kind in _EXPECTED else problem["msg"]
        return f"{path} is {_shown(problem['input'])}, expected {expected}"

    def _unknown_key(self, loc: tuple[int | str, ...]) -> str:
        """Name the key that does not exist, and the one that was meant."""
        name = str(loc[-1])
        block = _path(loc[:-1])
        elsewhere = [place for place, model in self._blocks.items() if name in model.model_fields]
        if elsewhere:
            hint = f"it belongs {f'to {elsewhere[0]}' if elsewhere[0] else 'at the top'}"
        else:
            known = self._keys_of(block)
            aliases = {alias: key for alias, key in self._other_names.items() if key in known}
            hint = suggest(name, known)
            if not hint.startswith("did you mean") and aliases:
                close = suggest(name, aliases)
                meant = next((key for alias, key in aliases.items() if close == f"did you mean {alias!r}?"), None)
                hint = f"did you mean {meant!r}?" if meant else hint
        return f"{block or 'the file'} has no key {_shown(name)}; {hint}"

    def _keys_of(self, block: str) -> list[str]:
        return list(self._blocks[block].model_fields) if block in self._blocks else []

    def _description(self, path: str) -> str:
        """Return what a key means, in the words of the model."""
        block, _, name = path.rpartition(".")
        model = self._blocks.get(block)
        if model is None or name not in model.model_fields:
            return "a value"
        text = model.model_fields[name].description or "a value"
        return text[0].lower() + text[1:].rstrip(".")


def _blocks(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the blocks of a file with the places where they stand."""
    yield path, model
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _blocks(kind, f"{path}.{name}" if path else name)


def _path(loc: Sequence[int | str]) -> str:
    return "".join(_steps(loc)).lstrip(".")


def _steps(loc: Sequence[int | str]) -> Iterator[str]:
    for step in loc:
        if isinstance(step, int):
            yield f"[{step}]"
        elif step != "[key]":
            yield f".{_clean(step)}"


def _clean(text: str) -> str:
    """Return a text that a user gave as it may stand in a message: printable, of a readable length."""
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _shown(value: object) -> str:
    """Return a value as JSON would write it, cut to a readable length."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    try:
        text = json.dumps(value) if not isinstance(value, str) else repr(value)
    except (TypeError, ValueError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
