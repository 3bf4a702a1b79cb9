"""Tool calls: what a result looks like, and what happens when the model gets one wrong."""

from __future__ import annotations

import math
from typing import Any

from envs.check import arguments
from envs.check.rule import HTTP_API, Evidence, Failed, NotSeen, reference, rule
from envs.check.subject import Call, Subject
from envs.check.survey import Survey

UNKNOWN_TOOL = "ors_check_unknown_tool"
_REASONS_SINCE = (0, 1, 132)


@rule(
    "ORS-040",
    "A call answers with an output",
    'A call that works answers {"ok": true, "output": {blocks, metadata, reward, finished}}: '
    "blocks a list of blocks, metadata an object or null, finished a boolean.",
    HTTP_API,
)
async def output(subject: Subject, survey: Survey) -> Evidence:
    made = _made(survey)
    working = [call for call in made if call.outcome.get("ok") is True]
    if not working:
        raise Failed(made[0].stream.sent, f"not one of {len(made)} calls worked, the first: {made[0].stream.got}")
    for call in working:
        found = call.outcome.get("output")
        if not isinstance(found, dict):
            raise call.stream.failed("no output")
        if not isinstance(found.get("blocks"), list) or not all(isinstance(one, dict) for one in found["blocks"]):
            raise call.stream.failed("blocks is not a list of blocks")
        if not isinstance(found.get("metadata"), dict | None):
            raise call.stream.failed("metadata is neither an object nor null")
        if not isinstance(found.get("finished"), bool):
            raise call.stream.failed("finished is not a boolean")
    return working[0].stream.evidence


@rule(
    "ORS-041",
    "An unknown tool is a result, not a crash",
    'A call of a tool that does not exist answers {"ok": false, "error": string, "reason": "not_found"}, '
    "the reason from 0.1.132 on.",
    reference("0.1.132"),
)
async def unknown_tool(subject: Subject, survey: Survey) -> Evidence:
    async with subject.session() as session:
        return _refused(await session.call(UNKNOWN_TOOL, {}), "not_found")


@rule(
    "ORS-042",
    "Wrong arguments are a result, not a crash",
    "A call whose arguments the tool's schema forbids answers "
    '{"ok": false, "error": string, "reason": "input_validation"}, the reason from 0.1.132 on.',
    reference("0.1.132"),
)
async def wrong_arguments(subject: Subject, survey: Survey) -> Evidence:
    tool, given = _wrong(survey)
    async with subject.session() as session:
        return _refused(await session.call(tool, given), "input_validation")


@rule(
    "ORS-043",
    "A refused call leaves the session as it was",
    "After a call that was refused for its tool or its arguments the session takes the next call.",
    reference("0.1.167"),
)
async def usable_after_refusal(subject: Subject, survey: Survey) -> Evidence:
    chosen = survey.need_plain()
    async with subject.session() as session:
        await session.call(UNKNOWN_TOOL, {})
        call = await session.call(*chosen)
    if call.outcome.get("ok") is not True:
        raise call.stream.failed("after a call of an unknown tool")
    return call.stream.evidence


@rule(
    "ORS-044",
    "A reward is a number or null",
    "output.reward is a finite number, or null where the call was not scored; never a string, a boolean or NaN.",
    HTTP_API,
)
async def reward(subject: Subject, survey: Survey) -> Evidence:
    working = [call for call in _made(survey) if call.outcome.get("ok") is True]
    if not working:
        raise NotSeen("no call worked (ORS-040)")
    for call in working:
        found = call.output.get("reward")
        if found is not None and not _is_finite(found):
            raise call.stream.failed(f"the reward is {found!r}")
    scored = [call for call in working if call.output.get("reward") is not None]
    shown = (scored or working)[0]
    return Evidence(shown.stream.sent, f"{len(working)} results, {len(scored)} with a reward; {shown.stream.got}")


@rule(
    "ORS-045",
    "After the end no tool runs",
    'A call after one that answered finished: true answers {"ok": false, "reason": "episode_finished"}.',
    reference("0.1.160"),
    since=(0, 1, 160),
)
async def after_the_end(subject: Subject, survey: Survey) -> Evidence:
    ending = survey.need_ending()
    async with subject.session() as session:
        last = await session.call(*ending)
        if not last.finished:
            raise NotSeen(f"the call that ended an episode did not end the next one: {last.stream.got}")
        return _refused(await session.call(*survey.need_plain()), "episode_finished")


def _made(survey: Survey) -> list[Call]:
    if not survey.calls:
        raise NotSeen(survey.problem or "no tool call could be made from the schemas")
    return survey.calls


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer above all floating-point numbers, which no trainer can add up
        return False


def _wrong(survey: Survey) -> tuple[str, dict[str, Any]]:
    for tool, schema in survey.tools.items():
        given = arguments.wrong(schema)
        if given is not None:
            return tool, given
    raise NotSeen(survey.problem or f"every tool takes any arguments{survey.unmade}")


def _refused(call: Call, reason: str) -> Evidence:
    outcome = call.outcome
    if outcome.get("ok") is not False or not isinstance(outcome.get("error"), str):
        raise call.stream.failed("not refused as a result")
    if outcome.get("reason") != reason:
        raise Failed(call.stream.sent, f"the reason is not {reason}: {call.stream.got}", since=_REASONS_SINCE)
    return call.stream.evidence


RULES = (output, unknown_tool, wrong_arguments, usable_after_refusal, reward, after_the_end)
