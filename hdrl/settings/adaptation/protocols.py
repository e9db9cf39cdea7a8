"""Claims about advisors that are more than one comparison: a function each, by name."""

from __future__ import annotations

from hdrl.registry import Registry
from hdrl.setting import ReproduceProtocol

PROTOCOLS: Registry[ReproduceProtocol] = Registry("protocol")
