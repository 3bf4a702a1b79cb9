"""Many sessions at once: a group of rollouts is opened together, and each is alone in its episode."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from envs.check.rule import HTTP_API, Evidence, Failed, reference, rule
from envs.check.subject import Session, Subject, Task
from envs.check.survey import Survey


@rule(
    "ORS-032",
    "Sessions do not touch each other",
    "What one session does, ends or deletes, no other session sees.",
    HTTP_API,
)
async def isolated(subject: Subject, survey: Survey) -> Evidence:
    tasks = await subject.tasks()
    async with subject.session(tasks[0]) as first, subject.session(tasks[-1]) as second:
        own, other = await first.prompt(), await second.prompt()
        again = await first.prompt()
        if again.json() != own.json() and again.json() == other.json():
            raise again.failed("the first session shows the second one's prompt")
        await first.delete()
        alive = await second.ping()
        if alive.status != 200:
            raise alive.failed("after another session was deleted")
    if survey.ending is None:
        return alive.evidence
    async with subject.session(tasks[0]) as first, subject.session(tasks[0]) as second:
        ended = await first.call(*survey.ending)
        call = await second.call(*survey.need_plain())
    if ended.finished and call.reason == "episode_finished":
        raise call.stream.failed("after another session's episode ended")
    return call.stream.evidence


@rule(
    "ORS-033",
    "Sessions are opened and used together",
    "A server opens, serves and closes several sessions of one environment at the same time.",
    reference("0.1.167"),
)
async def parallel(subject: Subject, survey: Survey) -> Evidence:
    task = (await subject.tasks())[0]
    number = subject.wire.limits.parallel
    async with AsyncExitStack() as stack:
        sids = [await stack.enter_async_context(subject.closing()) for _ in range(number)]
        refused = [got for got in await asyncio.gather(*(_begin(subject, survey, task, sid) for sid in sids)) if got]
        deleted = await asyncio.gather(*(subject.delete(sid) for sid in sids))
    refused += [answer.got for answer in deleted if answer.status != 200]
    sent = f"{number} sessions at once: POST /create, GET /prompt, POST /call, POST /delete"
    if refused:
        raise Failed(sent, f"{len(refused)} times an error, the first: {refused[0]}")
    return Evidence(sent, f"{number} episodes")


async def _begin(subject: Subject, survey: Survey, task: Task, sid: str) -> str | None:
    """Open a session, read its prompt, make one call; return what went wrong."""
    for answer in (
        await subject.create(sid, split=task.split, index=task.index),
        await subject.started("GET", subject.path("prompt"), sid),
    ):
        if answer.status != 200:
            return answer.got
    if survey.plain is not None:
        call = await Session(subject, sid).call(*survey.plain)
        if not call.ok:
            return call.stream.got
    return None


RULES = (isolated, parallel)
