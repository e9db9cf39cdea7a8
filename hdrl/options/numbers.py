"""Numbers that options have in common: what they are, and from where to where they go."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=1, le=10**9)]
"""Number of things, at least one."""

Few = Annotated[int, Field(ge=1, le=10**6)]
"""Number of things, where a million is more than enough."""

Number = Annotated[int, Field(ge=0, le=10**9)]
"""Number of things, or index of one, from 0 on."""

Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]

Coefficient = Annotated[float, Field(ge=0, le=10)]
"""A weight that may be 0."""

LearningRate = Annotated[float, Field(gt=0, le=10)]

Positive = Annotated[float, Field(gt=0, le=1e6)]
"""A quantity in a unit of its own."""
