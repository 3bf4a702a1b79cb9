"""All rules, in the order in which they run and are shown."""

from __future__ import annotations

from envs.check.rule import Rule
from envs.check.rules import access, calls, concurrency, discovery, schemas, sessions, streaming, tasks, text

_MODULES = (discovery, schemas, tasks, sessions, concurrency, calls, streaming, text, access)

RULES: tuple[Rule, ...] = tuple(
    sorted((rule for module in _MODULES for rule in module.RULES), key=lambda rule: rule.id)
)
