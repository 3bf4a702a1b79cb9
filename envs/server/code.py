"""Running an environment's code so that it can neither end the server nor cancel what waits for it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from openreward.environments import Environment

from envs.server import sdk

_IDLE_METHODS = (Environment.setup, Environment.teardown)


async def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run an environment's code as the SDK does, in a thread unless it is asynchronous or does nothing.

    Raises:
        RuntimeError: the code called `exit`, or cancelled itself; whatever else it raises is raised.
    """
    if getattr(function, "__func__", None) in _IDLE_METHODS:
        return None
    if function == getattr(getattr(function, "__self__", None), "setup", None):
        return await run_to_its_end(function)
    return await _in_own_task(sdk.run_user_callable, function, *args, **kwargs)


async def run_to_its_end(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run an environment's code like `run`; but whoever cancels this waits for the thread, if it is in one.

    Nothing interrupts a thread, and a teardown beside a setup would miss what the setup makes after that.
    """
    if inspect.iscoroutinefunction(function):
        return await _in_own_task(function, *args, **kwargs)
    with _contained():
        work = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)
        thread = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            result = await asyncio.shield(thread)
        except asyncio.CancelledError:
            while not thread.done():
                with suppress(asyncio.CancelledError):  # however often: a limit of time cancels what was cancelled
                    await asyncio.wait([thread])
            thread.exception()  # seen, so that nothing is said about it
            raise
    return await _in_own_task(_awaited, result) if inspect.isawaitable(result) else result


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


async def _in_own_task(function: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
    """Run asynchronous code; where it cancels the task that it finds itself in, its caller's is another."""

    async def contained() -> Any:
        with _contained():
            return await function(*args, **kwargs)

    with _contained():
        return await asyncio.create_task(contained())


@contextmanager
def _contained() -> Iterator[None]:
    try:
        yield
    except SystemExit as error:
        # It would end the server: asyncio lets this one exception through to the loop.
        raise RuntimeError(f"the environment called exit({error.code!r})") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("the environment's code cancelled itself") from error
