"""What an environment offers: its name on the server, its splits, its tasks, its tools. Read before a run starts.

Each answer costs as few requests as the server's version allows. The SDK's client makes three requests of every one of
these calls, a session id taken and given back around each; one id serves them all.
"""

from __future__ import annotations

import asyncio
import logging
import operator
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.ors.http import HTTPStatus
from trainer.ors.keepalive import Keepalive
from trainer.ors.patience import starting_ride_out
from trainer.ors.sessions import Connection, connect
from trainer.ors.tools import ToolSpec

T = TypeVar("T")
logger = logging.getLogger(__name__)

PAGE = 1000  # tasks asked for in one request
PAUSE = 2.0  # seconds between questions to a backend that is starting and does not say how long it takes
AT_ONCE = 16  # requests
PROBES = 8  # tasks that are asked for their tools at most


async def resolve(endpoint: Endpoint, keepalive: Keepalive) -> Connection:
    """The connection to the environment that the endpoint means, its name checked against the server's list.

    Raises ConfigurationError where the server does not have the name; EnvironmentFailure where it does not answer.
    """
    make = connect(endpoint, keepalive)
    if (proxy := endpoint.swallowing_proxy()) is not None:
        _warn_once(
            f"{endpoint.address} looks local, but {proxy} is set and would take the requests elsewhere: "
            "add the host to NO_PROXY"
        )
    if endpoint.overridden:
        _warn_once(f"OPENREWARD_SESSION_URL is set: requests go to {endpoint.address} and not to the target given")
    if not endpoint.is_url:
        return make(endpoint.env_name)
    first = make(None)
    try:
        return make(await _name(endpoint, first))
    except BaseException:
        await first.close()
        raise


@cache
def _warn_once(text: str) -> None:
    logger.warning("%s", text)


async def _name(endpoint: Endpoint, first: Connection) -> str | None:
    try:
        names = [str(name) for name in await _ask(first, "GET", "/list_environments")]
    except HTTPStatus as status:
        if not status.gone:
            raise
        return endpoint.env_name  # a server from before the list; it judges the name itself
    except TypeError:
        raise EnvironmentFailure("crash", f"{first.wire.name}: its list of environments is none") from None
    if not names:
        raise ConfigurationError(f"{endpoint.address} serves no environment")
    if endpoint.env_name is None:
        if len(names) > 1:
            _warn_once(f"{endpoint.address} serves {', '.join(names)}: taking {names[0]!r}; choose with env_name=")
        return names[0]
    return _match(endpoint.env_name, names, endpoint.address)


def _match(wanted: str, names: Sequence[str], where: str) -> str:
    """The server's spelling: `EchoEnvironment`, `my_env` and `my-env` are served as `echoenvironment` and `myenv`."""
    if wanted in names:
        return wanted
    for spelling in (str.lower, lambda name: re.sub(r"[-_ ]", "", name).lower()):
        found = [name for name in names if spelling(name) == spelling(wanted)]
        if len(found) == 1:
            return found[0]
    raise ConfigurationError(f"{where} has no environment {wanted!r}; it has: {', '.join(names)}")


async def with_id(connection: Connection, ask: Callable[[str], Coroutine[Any, Any, T]]) -> T:
    """What `ask` gives under one session id, as servers behind a router want for every request."""
    limit = connection.endpoint.open_timeout
    try:
        async with asyncio.timeout(limit):
            sid = await connection.wire.create_session()
    except TimeoutError:
        raise EnvironmentFailure("timeout", f"{connection.wire.name}: no session id within {limit:g} s") from None
    try:
        return await ask(sid)
    finally:
        if not connection.endpoint.is_url:
            with suppress(EnvironmentFailure):
                await connection.wire.request("POST", "/delete_session", sid=sid, repeatable=True)


async def read_splits(connection: Connection) -> dict[str, int]:
    """The environment's splits with the number of tasks in each."""

    async def ask(sid: str) -> dict[str, int]:
        return {name: await _size(connection, sid, name) for name in await _splits(connection, sid)}

    return await with_id(connection, ask)


async def read_tasks(
    connection: Connection, split: str, *, count: int | None = None, indices: Sequence[int] | None = None
) -> list[tuple[int, dict[str, Any]]]:
    """The tasks asked for, each with its index: the first `count`, those at `indices`, or all of the split.

    Raises ConfigurationError for a split the environment does not have, an index outside it, and an empty result.
    """

    async def ask(sid: str) -> list[tuple[int, dict[str, Any]]]:
        await _check_split(connection, sid, split)
        total = await _count(connection, sid, split)
        if total is None:  # no /num_tasks and no /task_range before SDK 0.1.58: the whole list is the only way
            body = await _post(connection, sid, "tasks", {"split": split})
            tasks = list(body["tasks"])
            wanted = _wanted(connection, split, len(tasks), count, indices)
            return [(index, tasks[index]) for index in wanted]
        wanted = _wanted(connection, split, total, count, indices)
        ranges = _ranges(wanted)
        limit = asyncio.Semaphore(min(AT_ONCE, connection.endpoint.max_concurrency or AT_ONCE))

        async def page(start: int, stop: int) -> list[dict[str, Any]]:
            async with limit:
                return await _page(connection, sid, split, start, stop)

        pages = await asyncio.gather(*(page(start, stop) for start, stop in ranges))
        have = {
            start + offset: task
            for (start, _), page in zip(ranges, pages, strict=True)
            for offset, task in enumerate(page)
        }
        if missing := [index for index in wanted if index not in have]:
            raise EnvironmentFailure("crash", f"{connection.wire.name}: no task {missing[0]} of {total} in {split!r}")
        return [(index, have[index]) for index in wanted]

    try:
        return await with_id(connection, ask)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise _not_the_standard(connection, "tasks") from None


async def read_tools(connection: Connection, split: str, probe: Sequence[int]) -> list[ToolSpec]:
    """Every tool that the tasks at `probe` offer, merged by name; the tools common to all tasks where it is empty.

    Of more than `PROBES` tasks, so many are asked, spread over all of them. A tool that a probe could not be asked for
    is missing rather than an error, as long as one probe answered.
    """
    tools: dict[str, ToolSpec] = {}

    async def ask(index: int) -> Any:
        session = await connection.open(split, index, prompt=False)
        try:
            return await _get(connection, session.sid, "task_tools")
        finally:
            connection.close_session(session)

    told = await asyncio.gather(*(ask(index) for index in _spread(probe)), return_exceptions=True)
    failures = [answer for answer in told if isinstance(answer, BaseException)]
    if unforeseen := [failure for failure in failures if not isinstance(failure, EnvironmentFailure)]:
        raise unforeseen[0]
    old = [failure for failure in failures if isinstance(failure, HTTPStatus) and failure.gone]  # before SDK 0.1.84
    if len(old) < len(failures):
        logger.warning("%s: %d tasks did not tell their tools: %s", connection.wire.name, len(failures), failures[0])
    answers: list[Any] = [answer for answer in told if not isinstance(answer, BaseException)]
    if not answers:
        answers = [await with_id(connection, lambda sid: _get(connection, sid, "tools"))]
    terminal = None
    try:
        for answer in answers:
            terminal = answer.get("terminal_tool") or terminal
            for tool in answer["tools"]:
                spec = ToolSpec(str(tool["name"]), str(tool.get("description") or ""), tool.get("input_schema"))
                if tools.setdefault(spec.name, spec) != spec:
                    _warn_once(f"{connection.wire.name}: tool {spec.name!r} differs between tasks: taking the first")
    except (KeyError, TypeError, AttributeError):
        raise _not_the_standard(connection, "tools") from None
    if not tools:
        more = (
            f"; its terminal tool {terminal['name']!r} takes final messages, which is not supported" if terminal else ""
        )
        raise ConfigurationError(f"{connection.wire.name} offers no tools{more}")
    return list(tools.values())


def _spread(tasks: Sequence[int]) -> list[int]:
    """At most `PROBES` of the tasks, the first and the last among them."""
    if len(tasks) <= PROBES:
        return list(tasks)
    return [tasks[at * (len(tasks) - 1) // (PROBES - 1)] for at in range(PROBES)]


def _not_the_standard(connection: Connection, what: str) -> EnvironmentFailure:
    return EnvironmentFailure("crash", f"{connection.wire.name}: what it says of its {what} is not the standard's")


async def _check_split(connection: Connection, sid: str, split: str) -> None:
    names = await _splits(connection, sid)
    if split not in names:
        raise ConfigurationError(f"{connection.wire.name} has no split {split!r}; it has: {', '.join(names)}")


async def _splits(connection: Connection, sid: str) -> list[str]:
    return [str(split["name"]) for split in await _get(connection, sid, "splits")]


async def _count(connection: Connection, sid: str, split: str) -> int | None:
    try:
        return operator.index((await _post(connection, sid, "num_tasks", {"split": split}))["num_tasks"])
    except HTTPStatus as status:
        if status.status in (404, 405):
            return None
        raise


async def _size(connection: Connection, sid: str, split: str) -> int:
    count = await _count(connection, sid, split)
    return len((await _post(connection, sid, "tasks", {"split": split}))["tasks"]) if count is None else count


async def _page(connection: Connection, sid: str, split: str, start: int, stop: int) -> list[dict[str, Any]]:
    if stop - start > 1:
        try:
            body = await _post(connection, sid, "task_range", {"split": split, "start": start, "stop": stop})
            return list(body["tasks"])
        except HTTPStatus as status:
            if status.status not in (404, 405):
                raise  # else no /task_range before SDK 0.1.58: one by one
    return [
        (await _post(connection, sid, "task", {"split": split, "index": index}))["task"] for index in range(start, stop)
    ]


def _wanted(
    connection: Connection, split: str, total: int, count: int | None, indices: Sequence[int] | None
) -> list[int]:
    if total == 0:
        raise ConfigurationError(f"{connection.wire.name}: split {split!r} has no tasks")
    if indices is None:
        return list(range(total if count is None else min(count, total)))
    if outside := [index for index in indices if not 0 <= index < total]:
        raise ConfigurationError(
            f"{connection.wire.name}: split {split!r} has tasks 0 to {total - 1}, not {outside[0]}"
            + (f" and {len(outside) - 1} more of the indices given" if len(outside) > 1 else "")
        )
    return list(indices)


def _ranges(indices: Sequence[int]) -> list[tuple[int, int]]:
    """The runs of consecutive indices, in pages: each one request, and no task fetched that was not asked for."""
    ranges: list[tuple[int, int]] = []
    for index in sorted(set(indices)):
        if ranges and ranges[-1][1] == index and index - ranges[-1][0] < PAGE:
            ranges[-1] = (ranges[-1][0], index + 1)
        else:
            ranges.append((index, index + 1))
    return ranges


async def _get(connection: Connection, sid: str, what: str) -> Any:
    return await _ask(connection, "GET", f"{connection.prefix}/{what}", sid)


async def _post(connection: Connection, sid: str, what: str, body: dict[str, Any]) -> Any:
    return await _ask(connection, "POST", f"{connection.prefix}/{what}", sid, body)


async def _ask(
    connection: Connection, method: str, path: str, sid: str | None = None, body: dict[str, Any] | None = None
) -> Any:
    """The answer to a question that may be repeated. A backend that says it is starting, or asks to wait, is waited
    for; one that is not there is not, so that a wrong address is told at once."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + starting_ride_out()
    while True:
        try:
            return await connection.wire.request(method, path, sid=sid, body=body, repeatable=True)
        except HTTPStatus as status:
            if status.reached or clock() > deadline:
                raise
            await asyncio.sleep(status.retry_after or PAUSE)
