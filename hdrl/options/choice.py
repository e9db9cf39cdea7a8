"""Options whose values are names of a registry."""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from hdrl.base.registry import Registry


class OneOf:
    """The annotation of an option that takes the names in a registry at the time when the option is read."""

    def __init__(self, registry: Registry[Any]) -> None:
        self._registry = registry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema that checks values."""
        return core_schema.no_info_before_validator_function(self._known, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the names that are known now."""
        del schema, handler
        return {"enum": list(self._registry), "type": "string"}

    def _known(self, value: object) -> object:
        if not isinstance(value, str) or value not in self._registry:
            raise PydanticKnownError("literal_error", {"expected": ", ".join(repr(name) for name in self._registry)})
        return value
