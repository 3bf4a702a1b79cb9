"""The stream a call answers with: its events, getting it a second time, and its signs of life."""

from __future__ import annotations

import uuid

from envs.check.rule import EVENTS, Evidence, Failed, NotSeen, reference, rule
from envs.check.subject import Subject
from envs.check.survey import Survey


@rule(
    "ORS-050",
    "A call streams task_id, chunks and end",
    "POST /{env}/call answers with an event stream: task_id first, any number of chunk, then end; "
    "the data of chunk and end joined is the result as JSON.",
    EVENTS,
)
async def events(subject: Subject, survey: Survey) -> Evidence:
    chosen = survey.need_plain()
    async with subject.session() as session:
        call = await session.call(*chosen)
    stream = call.stream
    if stream.status != 200 or not stream.headers.get("content-type", "").startswith("text/event-stream"):
        raise stream.failed("no event stream")
    names = [event.name for event in stream.events]
    if not names or names[0] != "task_id" or names[-1] != "end" or set(names[1:-1]) - {"chunk"}:
        raise stream.failed(f"the events are {', '.join(names) or 'none'}")
    if not call.outcome:
        raise stream.failed("the joined data is no JSON object")
    return stream.evidence


@rule(
    "ORS-051",
    "A result can be fetched again",
    "POST /{env}/call with the task_id of an earlier call answers that call's result and does not run the tool again.",
    EVENTS,
)
async def resume(subject: Subject, survey: Survey) -> Evidence:
    chosen = survey.need_plain()
    async with subject.session() as session:
        first = await session.call(*chosen)
        if first.stream.task_id is None:
            raise NotSeen("the call gave no task_id (ORS-050)")
        again = await session.call(*chosen, task_id=first.stream.task_id)
    if again.stream.result != first.stream.result:
        raise again.stream.failed(f"not the first result ({first.stream.got})")
    if again.stream.task_id != first.stream.task_id:
        raise again.stream.failed("the task_id is another one: the tool ran again")
    return again.stream.evidence


@rule(
    "ORS-052",
    "An unknown task_id is an error",
    "POST /{env}/call with a task_id unknown to the server answers with an error event and runs no tool.",
    reference("0.1.167"),
    level="should",
)
async def unknown_task_id(subject: Subject, survey: Survey) -> Evidence:
    chosen = survey.need_plain()
    async with subject.session() as session:
        call = await session.call(*chosen, task_id=uuid.uuid4().hex)
    if call.stream.error is None and call.stream.status == 200:
        raise call.stream.failed("no error event")
    return call.stream.evidence


@rule(
    "ORS-053",
    "A slow tool's stream shows signs of life",
    "While a tool runs, its stream carries a comment line every ten seconds; clients give up after thirty of silence.",
    EVENTS,
    background=True,
)
async def comments(subject: Subject, survey: Survey) -> Evidence:
    if survey.slow is None:
        raise NotSeen("no tool has a number named seconds, delay, duration, sleep or wait, to be slow on request")
    limits = subject.wire.limits
    async with subject.session() as session:
        call = await session.call(*survey.slow, timeout=limits.slow_call + limits.answer)
    stream = call.stream
    if not stream.complete:
        raise Failed(stream.sent, f"no end within {stream.seconds:.0f} s")
    if stream.seconds <= limits.silence:
        raise NotSeen(f"asked to take {limits.slow_call:g} s, {survey.slow[0]} took {stream.seconds:.1f} s")
    seen = f"{stream.comments} comments, longest silence {stream.silence:.1f} s of {stream.seconds:.1f} s"
    if stream.silence > limits.silence:
        raise Failed(stream.sent, seen)
    return Evidence(stream.sent, seen)


RULES = (events, resume, unknown_task_id, comments)
