"""What an environment's tools do, found out by calling them: which one ends an episode, which one repeats text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from envs.check import arguments
from envs.check.rule import Failed, NotSeen
from envs.check.subject import Call, Session, Subject, Task

_MARKER = "ors-check-7f3a"
_MOST_TOOLS = 12
_LONGEST_HINT = 500

Chosen = tuple[str, dict[str, Any]]


@dataclass
class Survey:
    """What was found, each as a tool and its arguments.

    Args:
        tools: every tool a session has, by name, with its schema.
        terminal: name and argument of the terminal tool.
        calls: every call that was made, for rules that look at all of them.
        plain: a call that works and does not end the episode.
        ending: a call that ends the episode.
        echoing: a tool whose result repeats the text of its argument, with a function from text to arguments.
        slow: a tool that waits as long as it is told.
        unreadable: tools with a schema that no arguments can be made from.
        problem: why no session could be opened.
    """

    tools: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    terminal: tuple[str, str | None] | None = None
    calls: list[Call] = field(default_factory=list)
    plain: Chosen | None = None
    ending: Chosen | None = None
    echoing: tuple[str, dict[str, Any], str] | None = None
    slow: Chosen | None = None
    unreadable: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def unmade(self) -> str:
        """What to say besides where a call would have been needed; "" where arguments could be made for every tool."""
        return f"; no arguments can be made for {', '.join(self.unreadable)}" if self.unreadable else ""

    def need_plain(self) -> Chosen:
        """Return a working call, ending ones included.

        Raises:
            NotSeen: no tool could be called.
        """
        chosen = self.plain or self.ending
        if chosen is None:
            raise NotSeen(self.problem or f"no tool call made from the schemas gave a result{self.unmade}")
        return chosen

    def need_ending(self) -> Chosen:
        """Return a call that ends the episode.

        Raises:
            NotSeen: none was found.
        """
        if self.ending is None:
            raise NotSeen(self.problem or f"none of {len(self.calls)} tool calls ended the episode{self.unmade}")
        return self.ending


async def survey(subject: Subject) -> Survey:
    """Call the tools of an environment's first task, within the limits, and return what they do."""
    found = Survey()
    try:
        task = (await subject.tasks())[0]
        await _Explorer(subject, task, found).run()
    except (Failed, NotSeen) as error:
        found.problem = str(error)
    except Exception as error:  # an answer of a form that nobody foresaw
        found.problem = f"looking at its tools ended in {type(error).__name__}: {error}"
    return found


class _Explorer:
    def __init__(self, subject: Subject, task: Task, found: Survey) -> None:
        self._subject = subject
        self._task = task
        self._found = found
        self._seconds = subject.wire.limits.slow_call

    async def run(self) -> None:
        async with self._subject.session(self._task) as listing:
            await self._list(listing)
        session: Session | None = None
        async with AsyncExitStack() as stack:
            for tool, given in self._candidates():
                if len(self._found.calls) >= self._subject.wire.limits.survey_calls:
                    break
                if session is None:
                    session = await stack.enter_async_context(self._subject.session(self._task))
                call = await session.call(tool, given)
                self._note(call)
                if call.finished or not call.outcome:
                    # The episode is over, or the tool crashed and took its session with it.
                    await stack.aclose()
                    session = None
                if self._found.plain and self._found.ending and self._found.echoing:
                    break

    async def _list(self, session: Session) -> None:
        listed: Any = None
        for answer in (
            await self._subject.wire.request("GET", self._subject.path("task_tools"), session=session.sid),
            await self._subject.wire.request("GET", self._subject.path("tools")),
        ):
            listed = answer.json()
            if isinstance(listed, dict) and isinstance(listed.get("tools"), list):
                break
        if not isinstance(listed, dict):
            return
        tools = listed.get("tools") if isinstance(listed.get("tools"), list) else []
        for tool in [tool for tool in tools or [] if isinstance(tool, dict)][:_MOST_TOOLS]:
            name, schema = str(tool.get("name")), tool.get("input_schema")
            self._found.tools[name] = schema if isinstance(schema, dict) else None
            if arguments.valid(self._found.tools[name]) is None:
                self._found.unreadable.append(name)
        terminal = listed.get("terminal_tool")
        if isinstance(terminal, dict) and isinstance(terminal.get("name"), str):
            argument = terminal.get("arg")
            self._found.terminal = (terminal["name"], argument if isinstance(argument, str) else None)

    def _candidates(self) -> Iterator[Chosen]:
        for tool, schema in self._found.tools.items():
            waits = arguments.waiting(schema, self._seconds)
            if waits is not None and self._found.slow is None:
                self._found.slow = (tool, waits)
            yield from ((tool, given) for given in arguments.with_text(schema, _MARKER))
            given = arguments.valid(schema, _MARKER)
            if given is not None:
                yield tool, given
        for hint in list(dict.fromkeys(arguments.leaves(self._task.spec)))[:6]:
            for tool, schema in self._found.tools.items():
                if isinstance(hint, str) and len(hint) <= _LONGEST_HINT:
                    yield from ((tool, given) for given in arguments.with_text(schema, hint))
                elif isinstance(hint, int | float):
                    given = arguments.valid(schema, number=hint)
                    if given is not None and hint in given.values():
                        yield tool, given
        if self._found.terminal is not None:
            name, argument = self._found.terminal
            yield name, {} if argument is None else {argument: _MARKER}

    def _note(self, call: Call) -> None:
        found = self._found
        found.calls.append(call)
        if call.finished:
            found.ending = found.ending or (call.tool, call.arguments)
        elif call.ok:
            found.plain = found.plain or (call.tool, call.arguments)
        if call.ok and _MARKER in call.text and found.echoing is None:
            name = next((name for name, value in call.arguments.items() if value == _MARKER), None)
            if name is not None:
                found.echoing = (call.tool, call.arguments, name)
