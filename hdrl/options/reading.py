"""From what a file holds to options: every mistake in it is one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hdrl.base.errors import OptionsError, ReadError, readable
from hdrl.options.problems import problem_of, shown

M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], data: object, where: str, changed: Iterable[str] = (), whole: str = "the file") -> M:
    """Return the contents of a JSON file as a model, or raise OptionsError with its first mistake in a line.

    For messages, ``where`` names the source, ``changed`` the keys that the command line has changed, and ``whole`` what
    the source is called behind its name.

    Raises
    ------
    OptionsError
        If a key or value is wrong.
    """
    if not isinstance(data, Mapping):
        raise OptionsError(f"{where}: holds {shown(data)}, expected an object")
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        problem = problem_of(model, error, whole)
    if any(problem.path == key or problem.path.startswith((f"{key}.", f"{key}[")) for key in changed):
        where = "--set"
    raise OptionsError(f"{where}: {problem}")


def checked(
    model: type[M],
    data: object,
    path: str | Path,
    *,
    message: str = "{}",
    whole: str = "the file",
    line: int | None = None,
) -> M:
    """Return the contents of a file that hdrl or a user wrote, or of a line of it, as a model.

    For messages, ``message`` takes the first mistake, and ``whole`` is what the data are called there.

    Raises
    ------
    ReadError
        If a key or value is wrong.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ReadError(path, message.format(problem_of(model, error, whole)), line=line) from None


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def override(data: dict[str, Any], text: str) -> str:
    """Apply one ``key.path=value`` and return the key.

    The value is JSON, or else text.

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
            f"--set {readable(text)}: expected KEY=VALUE, for instance pybatsim.agent.policy_pair=first-random"
        )
    block = data
    for depth, name in enumerate(names[:-1], start=1):
        inner = block.setdefault(name, {})
        if not isinstance(inner, dict):
            raise OptionsError(
                f"--set {readable(key)}: {readable('.'.join(names[:depth]))} is {shown(inner)}, it has no keys"
            )
        block = inner
    block[names[-1]] = json_or_text(value)
    return key


def json_or_text(text: str) -> Any:
    """Return a value of the command line: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
