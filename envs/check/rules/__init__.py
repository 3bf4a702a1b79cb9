"""All rules, in the order in which they run and are shown."""

from __future__ import annotations

from envs.check.rule import Rule
from envs.check.rules import access, calls, concurrency, discovery, schemas, sessions, streaming, tasks, text

RULES: tuple[Rule, ...] = (
    *discovery.RULES,
    *schemas.RULES,
    *tasks.RULES,
    *sessions.RULES,
    *concurrency.RULES,
    *calls.RULES,
    *streaming.RULES,
    *text.RULES,
    *access.RULES,
)
