"""What a rule is, and the three ways one can come out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from envs.check.subject import Subject
    from envs.check.survey import Survey

Level = Literal["must", "should"]
Scope = Literal["server", "environment"]
Status = Literal["passed", "failed", "older", "not seen"]
Version = tuple[int, ...]

OLDEST: Version = (0,)
HTTP_API = "ORS specification, HTTP API (openrewardstandard.io/specification/http-api)"
EVENTS = "ORS specification, Server-Sent Events (openrewardstandard.io/specification/sse)"
EVENT_STREAM = "WHATWG HTML, Server-sent events, Interpreting an event stream"


@dataclass(frozen=True)
class Evidence:
    """What was sent and what came back, each shortened to a line."""

    sent: str
    got: str


class Failed(Exception):
    """The server does not keep the rule.

    Args:
        since: the version this demand applies from, where it is newer than the rule itself.
    """

    def __init__(self, sent: str, got: str, since: Version = OLDEST) -> None:
        super().__init__(f"{sent} -> {got}")
        self.evidence = Evidence(sent, got)
        self.since = since


class NotSeen(Exception):
    """The rule could not be tried on this server; the message says why."""


def printable(text: str) -> str:
    """Return a text as one line of characters that a terminal shows and every encoding has a way for."""
    line = " ".join(text.splitlines())
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)


Check = Callable[["Subject", "Survey"], Awaitable[Evidence]]


@dataclass(frozen=True)
class Rule:
    """One demand of the standard and the function that tries it.

    Args:
        id: stable, never used again for something else.
        says: what the standard says, in one sentence.
        since: first version of the reference server that keeps the rule; an older server that does not is no failure.
        scope: whether the rule is tried once a server or once an environment.
        background: runs beside the other rules, because it waits more than it sends.
    """

    id: str
    title: str
    says: str
    source: str
    level: Level
    since: Version
    scope: Scope
    background: bool
    check: Check


def rule(
    id: str,
    title: str,
    says: str,
    source: str,
    *,
    level: Level = "must",
    since: Version = OLDEST,
    scope: Scope = "environment",
    background: bool = False,
) -> Callable[[Check], Rule]:
    """Turn a check function into a `Rule`."""
    return lambda check: Rule(id, title, says, source, level, since, scope, background, check)


def reference(version: str) -> str:
    """Return how a rule cites the reference server's behaviour."""
    return f"openreward {version}, reference server"
