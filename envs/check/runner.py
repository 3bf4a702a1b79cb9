"""Runs the rules one after the other, in bounded time, and closes every session it opened, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import httpx2

from envs.check.headers import HeaderError, key
from envs.check.limits import Limits
from envs.check.report import Report, Result, name_of
from envs.check.rule import OLDEST, Evidence, Failed, NotSeen, Rule, Status, Version, printable
from envs.check.rules import RULES
from envs.check.subject import Subject, can_be_asked_for
from envs.check.survey import Survey, survey
from envs.check.wire import Exchange, Wire, last_evidence

_CLOSING_SECONDS = 15.0
_NEWEST: Version = (2**31,)
_SHOWN = 1_000  # what a rule says, with an answer that is shortened already


class CheckError(Exception):
    """The check could not be made; the message is one line for a person."""


async def run_check(
    url: str,
    *,
    environments: Sequence[str] | None = None,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    rules: Sequence[Rule] = RULES,
) -> Report:
    """Check an ORS server against the standard.

    Args:
        url: of the server, `http://` or `https://`.
        environments: names to check, by default all that the server lists.
        api_key: sent in X-API-Key; never in the report.
        headers: sent with every request, to this server and no other; their values are never in the report.

    Raises:
        CheckError: the URL is none or its password is at odds with the headers, the key cannot be sent, nothing answers
            there, or it lacks an environment that was asked for.
    """
    if not _is_url(url):
        shown = printable(url.rpartition("@")[2])  # before the "@" may be a password
        raise CheckError(f"{shown!r} is no URL; give one such as http://127.0.0.1:8000")
    if headers and "@" in urlsplit(url).netloc and any(name.lower() == "authorization" for name in headers):
        raise CheckError("the URL holds a password and a header is Authorization: only one can be sent")
    try:
        wire = Wire(url, None if api_key is None else key(api_key), limits or Limits(), headers)
    except HeaderError as error:
        raise CheckError(str(error)) from error
    check = _Check(wire, rules)
    try:
        return await check.run(environments)
    finally:
        # Shielded: an interrupt ends the check and not its tidying up.
        await asyncio.shield(check.close())


class _Check:
    def __init__(self, wire: Wire, rules: Sequence[Rule]) -> None:
        self._wire = wire
        self._rules = rules
        self._sessions: set[str] = set()
        self._deadline = time.monotonic() + wire.limits.total
        self._band = OLDEST

    async def run(self, environments: Sequence[str] | None) -> Report:
        await self._reach()
        version = await self._version()
        self._band = _parse(version) if version else OLDEST
        names = await self._names(environments)
        subjects = [Subject(self._wire, name, self._sessions) for name in names or [""]]
        nothing = Survey(problem="the server lists no environment (ORS-003)")
        results = [
            await self._try(rule, subjects[0], nothing, named=False) for rule in self._rules if rule.scope == "server"
        ]
        own = [rule for rule in self._rules if rule.scope == "environment"]
        for subject in subjects:
            if subject.name:
                results += await self._environment(subject, own)
            else:
                results += [Result(rule, "", "not seen", None, nothing.problem, 0.0) for rule in own]
        return Report(self._wire.url, self._wire.clean(version), tuple(names), tuple(results))

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await asyncio.gather(*(self._delete(sid) for sid in self._sessions))
        await self._wire.close()

    async def _delete(self, sid: str) -> None:
        with contextlib.suppress(Failed):
            await self._wire.request("POST", "/delete", session=sid)

    async def _reach(self) -> None:
        try:
            answer = await self._wire.request("GET", "/health")
        except Failed as error:
            raise CheckError(f"{self._wire.url}: {error.evidence.got}") from error
        if 300 <= answer.status < 400 and (elsewhere := answer.headers.get("location", "")).startswith("http"):
            leads = self._wire.clean(elsewhere.removesuffix("/health"))
            raise CheckError(f"{self._wire.url} leads to {leads}: check that URL")
        try:
            listed = await self._wire.request("GET", "/list_environments")
        except Failed:  # ORS-003 says so
            return
        if listed.status in (401, 403):
            hint = "refuses the key"
            if self._wire.api_key is None:
                hint = "asks for a key: give --api-key, or --hf-token for a private Space"
            raise CheckError(f"{self._wire.url} {hint} ({self._refusal(listed)})")

    def _refusal(self, answer: Exchange) -> str:
        body = answer.json()
        told = [body.get(key) for key in ("detail", "error")] if isinstance(body, dict) else []  # FastAPI's, the Hub's
        said = next((text for text in told if isinstance(text, str) and text), None)
        return self._wire.clean(f"{answer.status}: {said}") if said else answer.got

    async def _version(self) -> str:
        with contextlib.suppress(Failed):
            answer = await self._wire.request("GET", "/version")
            body = answer.json()
            if answer.status == 200 and isinstance(body, dict) and isinstance(body.get("version"), str):
                return str(body["version"])
        return ""

    async def _names(self, asked: Sequence[str] | None) -> list[str]:
        with contextlib.suppress(Failed):
            found = (await self._wire.request("GET", "/list_environments")).json()
            strings = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
            listed = [name for name in dict.fromkeys(strings) if can_be_asked_for(name)]
            unknown = [name for name in asked or [] if listed and name.lower() not in [one.lower() for one in listed]]
            if unknown:
                has = self._wire.clean(", ".join(listed))
                raise CheckError(f"{self._wire.url} has no environment {unknown[0]!r}; it has: {has}")
            return list(asked) if asked else listed
        return list(asked or [])

    async def _environment(self, subject: Subject, rules: Sequence[Rule]) -> list[Result]:
        known = Survey(problem="no time left")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(self._wire.limits.rule, self._left())):
                known = await survey(subject)
        beside = {
            rule.id: asyncio.create_task(self._try(rule, subject, known, named=True))
            for rule in rules
            if rule.background
        }
        try:
            results = {
                rule.id: await self._try(rule, subject, known, named=True) for rule in rules if rule.id not in beside
            }
            results |= {id: await task for id, task in beside.items()}
            return [results[rule.id] for rule in rules]
        finally:
            for task in beside.values():
                task.cancel()

    async def _try(self, rule: Rule, subject: Subject, known: Survey, *, named: bool) -> Result:
        started = time.monotonic()
        if self._left() <= 0:
            late = Evidence("nothing", f"the {self._wire.limits.total:g} s of the whole check are over")
            return Result(rule, subject.name if named else "", "failed", late, "", 0.0)
        before = last_evidence()
        evidence: Evidence | None = None
        status: Status = "passed"
        reason = ""
        try:
            async with asyncio.timeout(min(self._wire.limits.rule, self._left())):
                evidence = await rule.check(subject, known)
        except NotSeen as absent:
            status, reason = "not seen", self._wire.clean(str(absent))
        except TimeoutError:
            status, evidence = (
                "failed",
                Evidence("several requests", f"no end within {time.monotonic() - started:.0f} s"),
            )
        except Exception as error:
            failure = error if isinstance(error, Failed) else _unforeseen(error, before)
            evidence, status = failure.evidence, "failed"
            since = max(rule.since, failure.since)
            if self._band < since:
                status, reason = "older", f"servers keep this rule from {name_of(since)} on"
        if evidence is not None:
            evidence = Evidence(*(self._wire.clean(text, _SHOWN) for text in (evidence.sent, evidence.got)))
        return Result(rule, subject.name if named else "", status, evidence, reason, time.monotonic() - started)

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        httpx2.URL(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx2.InvalidURL):  # half a bracket, a port that is none
        return False


def _unforeseen(error: Exception, before: Evidence | None) -> Failed:
    """Return the failure for an answer that a rule cannot even read."""
    last = last_evidence()
    if last is None or last is before:
        last = Evidence("several requests", "answers")
    return Failed(last.sent, f"{last.got} (reading it ended in {type(error).__name__}: {error})")


def _parse(version: str) -> Version:
    """Return a version as numbers; one that cannot be read counts as new, so that it is judged by all rules."""
    match = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)(?!\d)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else _NEWEST
