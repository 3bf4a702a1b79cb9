"""What came out of a check, for a person and for a machine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from envs.check.rule import OLDEST, Evidence, Rule, Status, Version

_NAMES: dict[Status, str] = {"passed": "ok", "failed": "FAILED", "older": "older", "not seen": "not seen"}


@dataclass(frozen=True)
class Result:
    """How one rule came out on one environment.

    Args:
        environment: its name, "" for a rule about the whole server.
        evidence: None where nothing was sent.
        reason: why a rule was not seen, or from which version on it holds.
    """

    rule: Rule
    environment: str
    status: Status
    evidence: Evidence | None
    reason: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """All results of one check.

    Args:
        url: without a password.
        version: as the server gives it, "" where it gives none.
    """

    url: str
    version: str
    environments: tuple[str, ...]
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Whether no rule of level must failed."""
        return not any(result.status == "failed" and result.rule.level == "must" for result in self.results)

    def failures(self) -> list[Result]:
        return [result for result in self.results if result.status == "failed"]

    def as_json(self) -> str:
        """Return one JSON document."""
        return json.dumps(
            {
                "url": self.url,
                "version": self.version or None,
                "environments": self.environments,
                "ok": self.ok,
                "results": [_entry(result) for result in self.results],
            },
            indent=2,
            ensure_ascii=False,
        )

    def as_text(self) -> str:
        """Return a table with one line a result, and for what failed the rule, what was sent and what came back."""
        lines = [f"{self.url}: {self.version or 'no version, judged by the oldest'}"]
        for environment in ("", *self.environments):
            mine = [result for result in self.results if result.environment == environment]
            if mine:
                lines += ["", environment or "the server", *(line for result in mine for line in _lines(result))]
        return "\n".join([*lines, "", self.summary()])

    def summary(self) -> str:
        """Return the counts in one line."""
        counts = Counter(
            f"failed ({result.rule.level})" if result.status == "failed" else result.status for result in self.results
        )
        order = ("passed", "failed (must)", "failed (should)", "older", "not seen")
        return ", ".join(
            f"{counts[name]} {name}" for name in order if counts[name] or name in ("passed", "failed (must)")
        )


def name_of(version: Version) -> str:
    """Return a version as people write it, "any" for the oldest."""
    return "any" if version == OLDEST else ".".join(map(str, version))


def table(rules: Iterable[Rule]) -> str:
    """Return all rules as a Markdown table, for the documentation."""
    rows = [
        f"| {rule.id} | {rule.level} | {name_of(rule.since)} "
        f"| **{rule.title}.** {_cell(rule.says)} | {_cell(rule.source)} |"
        for rule in rules
    ]
    return "\n".join(["| rule | level | from | what the standard says | source |", "|---|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _lines(result: Result) -> list[str]:
    rule = result.rule
    lines = [f"  {_NAMES[result.status]:<9} {rule.id}  {rule.level:<6}  {rule.title}"]
    if result.status == "not seen":
        lines.append(f"{'':26}{result.reason}")
    if result.status in ("failed", "older") and result.evidence is not None:
        told = [
            ("rule", rule.says),
            ("from", rule.source),
            ("sent", result.evidence.sent),
            ("got", result.evidence.got),
        ]
        if result.reason:
            told.append(("but", result.reason))
        lines += [f"{'':26}{name:<5} {text}" for name, text in told]
    return lines


def _entry(result: Result) -> dict[str, Any]:
    rule = result.rule
    return {
        "rule": rule.id,
        "title": rule.title,
        "says": rule.says,
        "source": rule.source,
        "level": rule.level,
        "since": name_of(rule.since),
        "environment": result.environment or None,
        "status": result.status,
        **(asdict(result.evidence) if result.evidence else {"sent": None, "got": None}),
        "reason": result.reason or None,
        "seconds": round(result.seconds, 3),
    }
