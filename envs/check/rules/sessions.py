"""The life of a session: opened once for one task, kept alive, closed."""

from __future__ import annotations

import uuid
from typing import Any

from envs.check.rule import HTTP_API, Evidence, Failed, NotSeen, reference, rule
from envs.check.subject import Subject, is_session_id
from envs.check.survey import Survey
from envs.check.wire import Exchange

_REFUSALS = range(400, 500)


@rule(
    "ORS-020",
    "create_session streams a session's id",
    "POST /create_session answers with an event stream: task_id, whose data is a new session id, then end.",
    reference("0.1.167"),
    scope="server",
)
async def create_session(subject: Subject, survey: Survey) -> Evidence:
    first, second = await subject.wire.stream("/create_session"), await subject.wire.stream("/create_session")
    for stream in (first, second):
        if stream.status != 200 or not stream.headers.get("content-type", "").startswith("text/event-stream"):
            raise stream.failed("no event stream")
        if [event.name for event in stream.events] != ["task_id", "end"] or not (stream.task_id or "").strip():
            raise stream.failed("task_id and end expected")
        if not is_session_id((stream.task_id or "").strip()):
            raise stream.failed("an id that no header can carry")
    if first.task_id == second.task_id:
        raise second.failed("the same id twice")
    return first.evidence


@rule(
    "ORS-021",
    "create opens a session for a task",
    'POST /create with X-Session-ID, split and index answers 200 with {"sid": that id}.',
    HTTP_API,
)
async def create(subject: Subject, survey: Survey) -> Evidence:
    task = (await subject.tasks())[0]
    async with subject.closing() as sid:
        answer = await subject.create(sid, split=task.split, index=task.index)
    body = answer.json()
    if answer.status != 200 or not isinstance(body, dict) or body.get("sid") != sid:
        raise answer.failed(f"sid {sid!r} expected")
    return answer.evidence


@rule(
    "ORS-022",
    "create takes a task's spec instead",
    "POST /create with the task_spec of a task opens the same episode as its split and index.",
    HTTP_API,
)
async def create_by_spec(subject: Subject, survey: Survey) -> Evidence:
    task = (await subject.tasks())[0]
    prompts = []
    for _ in range(2):
        async with subject.session(task) as session:
            prompts.append(await session.prompt())
    first, second = prompts
    async with subject.closing() as sid:
        answer = await subject.create(sid, task_spec=task.spec)
        if answer.status != 200:
            raise answer.failed()
        prompt = await subject.started("GET", subject.path("prompt"), sid)
    # An environment may say one task in different words every time; then there is nothing to compare.
    if first.json() == second.json() and (prompt.status, prompt.json()) != (first.status, first.json()):
        raise Failed(answer.sent, f"the prompt is {prompt.got}, by split and index it is {first.got}")
    return answer.evidence


@rule(
    "ORS-023",
    "create refuses a spec and an index together",
    "POST /create with both task_spec and split+index is refused and opens nothing.",
    reference("0.1.167"),
)
async def both(subject: Subject, survey: Survey) -> Evidence:
    task = (await subject.tasks())[0]
    return await _refused(subject, task_spec=task.spec or {"check": True}, split=task.split, index=task.index)


@rule(
    "ORS-024",
    "create refuses neither a spec nor an index",
    "POST /create with neither task_spec nor both split and index is refused and opens nothing.",
    reference("0.1.167"),
)
async def neither(subject: Subject, survey: Survey) -> Evidence:
    task = (await subject.tasks())[0]
    await _refused(subject, split=task.split)
    await _refused(subject, index=task.index)
    return await _refused(subject)


@rule(
    "ORS-025",
    "create refuses a session that exists",
    "A second POST /create for one session is refused, and the session goes on.",
    reference("0.1.167"),
)
async def twice(subject: Subject, survey: Survey) -> Evidence:
    task = (await subject.tasks())[0]
    async with subject.session(task) as session:
        answer = await subject.create(session.sid, split=task.split, index=task.index)
        if answer.status not in _REFUSALS:
            raise answer.failed()
        alive = await session.ping()
        if alive.status != 200:
            raise alive.failed("after the refusal the session is gone")
    return answer.evidence


@rule(
    "ORS-026",
    "A request that needs a session says so",
    "POST /create, /ping and /delete without X-Session-ID are answered with 400.",
    HTTP_API,
    level="should",
)
async def no_session_header(subject: Subject, survey: Survey) -> Evidence:
    task = (await subject.tasks())[0]
    answer = await subject.create(None, split=task.split, index=task.index)
    if answer.status != 400:
        raise answer.failed()
    for path in ("/ping", "/delete"):
        answer = await subject.wire.request("POST", path)
        if answer.status != 400:
            raise answer.failed()
    return answer.evidence


@rule(
    "ORS-027",
    "The prompt is a list of blocks",
    "GET /{env}/prompt answers 200 with a list, not empty, of {type: text, text} or {type: image, data, mimeType}.",
    HTTP_API,
)
async def prompt(subject: Subject, survey: Survey) -> Evidence:
    async with subject.session() as session:
        answer = await session.prompt()
    _need_blocks(answer, answer.json())
    return answer.evidence


@rule(
    "ORS-028",
    "The prompt is served as messages too",
    "GET /{env}/messages answers 200 with a list of {role, blocks}; the role is system, user or assistant.",
    reference("0.1.157"),
    level="should",
    since=(0, 1, 157),
)
async def messages(subject: Subject, survey: Survey) -> Evidence:
    async with subject.session() as session:
        answer = await subject.started("GET", subject.path("messages"), session.sid)
    listed = answer.json()
    if answer.status != 200 or not isinstance(listed, list) or not listed:
        raise answer.failed("not a list of messages")
    for message in listed:
        roles = ("system", "user", "assistant")
        if (
            not isinstance(message, dict)
            or message.get("role") not in roles
            or not isinstance(message.get("blocks"), list)
        ):
            raise answer.failed("a message without a role or blocks")
    return answer.evidence


@rule(
    "ORS-029",
    "A session lists all its tools",
    "GET /{env}/task_tools answers 200 with the tools of GET /{env}/tools and those of the session's task.",
    reference("0.1.84"),
    since=(0, 1, 84),
)
async def task_tools(subject: Subject, survey: Survey) -> Evidence:
    shared = (await subject.wire.request("GET", subject.path("tools"))).json()
    async with subject.session() as session:
        answer = await subject.started("GET", subject.path("task_tools"), session.sid)
    body = answer.json()
    if answer.status != 200 or not isinstance(body, dict) or not isinstance(body.get("tools"), list):
        raise answer.failed("no list of tools")
    missing = _names(shared) - _names(body)
    if missing:
        raise answer.failed(f"without {', '.join(sorted(missing))}")
    return answer.evidence


@rule(
    "ORS-030",
    "ping tells a live session from an unknown one",
    "POST /ping answers 200 for an open session and 404 for one that the server does not know.",
    HTTP_API,
)
async def ping(subject: Subject, survey: Survey) -> Evidence:
    async with subject.session() as session:
        answer = await session.ping()
        if answer.status != 200:
            raise answer.failed("the session is open")
    answer = await subject.wire.request("POST", "/ping", session=str(uuid.uuid4()))
    if answer.status != 404:
        raise answer.failed("the server cannot know this session")
    return answer.evidence


@rule(
    "ORS-031",
    "delete ends a session, and may come twice",
    "POST /delete answers 200 and the session is gone; a second one, or one for an unknown session, answers 200 too.",
    reference("0.1.167"),
)
async def delete(subject: Subject, survey: Survey) -> Evidence:
    async with subject.session() as session:
        for turn in ("the first", "the second"):
            answer = await session.delete()
            if answer.status != 200:
                raise answer.failed(f"{turn} delete")
        gone = await session.ping()
        if gone.status == 200:
            raise gone.failed("after the delete")
    answer = await subject.wire.request("POST", "/delete", session=str(uuid.uuid4()))
    if answer.status != 200:
        raise answer.failed("for an unknown session")
    return answer.evidence


@rule(
    "ORS-034",
    "A session has its tools from the start",
    "GET /{env}/task_tools answers the same tools before a session's setup has ended and after it: "
    "clients ask for them without waiting.",
    reference("0.1.167"),
    level="should",
    since=(0, 1, 84),
)
async def tools_from_the_start(subject: Subject, survey: Survey) -> Evidence:
    async with subject.session() as session:
        before = await subject.started("GET", subject.path("task_tools"), session.sid)
        await session.prompt()  # which waits for the setup
        after = await subject.started("GET", subject.path("task_tools"), session.sid)
    if before.status != 200 or after.status != 200:
        raise NotSeen(f"no list of tools (ORS-029): {before.got}")
    if changed := _names(before.json()) ^ _names(after.json()):
        raise after.failed(f"changed with the setup: {', '.join(sorted(changed))}")
    return after.evidence


async def _refused(subject: Subject, **body: Any) -> Evidence:
    async with subject.closing() as sid:
        answer = await subject.create(sid, **body)
        if answer.status not in _REFUSALS:
            raise answer.failed()
        alive = await subject.wire.request("POST", "/ping", session=sid)
    if alive.status == 200:
        raise alive.failed("the refused request opened a session")
    return answer.evidence


def _need_blocks(answer: Exchange, blocks: Any) -> None:
    if answer.status != 200 or not isinstance(blocks, list) or not blocks:
        raise answer.failed("not a list of blocks")
    for block in blocks:
        text = isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
        image = isinstance(block, dict) and block.get("type") == "image" and isinstance(block.get("data"), str)
        if not text and not (image and isinstance(block.get("mimeType"), str)):
            raise answer.failed("a block that is neither text nor an image")


def _names(listed: Any) -> set[str]:
    tools = listed.get("tools") if isinstance(listed, dict) else None
    return {str(tool.get("name")) for tool in tools if isinstance(tool, dict)} if isinstance(tools, list) else set()


RULES = (
    create_session,
    create,
    create_by_spec,
    both,
    neither,
    twice,
    no_session_header,
    prompt,
    messages,
    task_tools,
    ping,
    delete,
    tools_from_the_start,
)
