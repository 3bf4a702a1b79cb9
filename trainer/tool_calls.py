"""The tool calls in what a model wrote: those that go onto the wire, and those that TRL refuses before.

TRL parses a message, looks each call's name up among the tools and gives it the arguments. What fails on that way never
reaches the adapter: it is found here, in the messages, so that it is counted and shown like a mistake that the server
found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from itertools import takewhile
from typing import Any

from trainer.episodes import Message
from trainer.ors.errors import ModelError
from trainer.ors.rollout import Call, Rollout

UNNAMED = "unknown"  # what TRL calls a call that is none of a function and has no name


def sent_calls(rollout: Rollout, message: Message) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a message as they go onto the wire, without those that TRL will refuse to make."""
    calls: list[tuple[str, dict[str, Any]]] = []
    tools: dict[str, Callable[..., Any]] = {tool.attribute: tool.function for tool in rollout._tools}
    for written in message["tool_calls"]:
        name, arguments = _read(written)
        if name in tools and isinstance(arguments, dict):
            tools[name](_Collector(calls), **arguments)
    return calls


def take_answers(rollout: Rollout) -> None:
    """Keep the answers that have come to calls under way, for which TRL will not ask any more."""
    while rollout._pending and _answered(rollout._pending[0].turn):
        pending = rollout._pending[0]
        rollout._call(pending.tool, dict(pending.arguments))


def _answered(turn: Future[Any]) -> bool:
    return turn.done() and not turn.cancelled() and turn.exception() is None


class _Collector:
    """Stands in for an adapter when a tool's method is only asked what it would send."""

    def __init__(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        self._calls = calls

    def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        self._calls.append((tool, arguments))
        return ""


def call_opening(response_template: Any) -> re.Pattern[str] | None:
    """What a tool call begins with, as a tokenizer's `response_template` says; None where it does not say."""
    fields = response_template.get("fields") if isinstance(response_template, Mapping) else None
    field = (fields or {}).get("tool_calls") or {}
    literals = field.get("open") or []
    literals = [literals] if isinstance(literals, str) else literals
    pattern = field.get("open_pattern") or "|".join(map(re.escape, literals))
    return re.compile(pattern) if pattern else None


def made_calls(
    rollout: Rollout,
    completion: Sequence[Message],
    *,
    others: Collection[str],
    turns_limit: int,
    opening: re.Pattern[str] | None,
    cut: bool,
) -> list[Call]:
    """Every call of an episode in its order: the adapter's, with those between them that it never heard of.

    Args:
        rollout: The adapter.
        completion: The messages that followed the prompt.
        others: Names of tools that are the trainer's own.
        turns_limit: Messages whose calls are made; those of a later one are not.
        opening: What a call begins with. A message that has it and yet no call is a `malformed_call`: TRL takes what
            it cannot parse for plain text, all calls of the message included.
        cut: Whether the last message was cut off, so that it says nothing of how the model writes calls.
    """
    adapters = iter(rollout.calls)
    own = {tool.attribute for tool in rollout._tools}
    calls: list[Call] = []
    turns = 0
    for at, message in enumerate(completion):
        if message.get("role") != "assistant":
            continue
        written = message.get("tool_calls") or []
        last = at == len(completion) - 1
        if not written and not (cut and last) and _begins_a_call(message, opening):
            calls.append(_unmade("", {}, "malformed_call"))
        turns += bool(written)
        if turns > turns_limit:
            break
        results = _Results(completion[at + 1 :])
        for call in written:
            name, arguments = _read(call)
            result = results.take(call if name is None else call["function"])
            if name in own and isinstance(arguments, dict):
                calls += [call for call in [next(adapters, None)] if call is not None]
            elif name not in own and name not in others:
                calls.append(_unmade(str(name or ""), arguments, "unknown_tool", result))
            else:
                error: ModelError | None = None if isinstance(arguments, dict) else "bad_arguments"
                calls.append(_unmade(str(name), arguments, error, result))
    return [*calls, *adapters]


def _begins_a_call(message: Message, opening: re.Pattern[str] | None) -> bool:
    return opening is not None and opening.search(str(message.get("content") or "")) is not None


def _unmade(name: str, arguments: Any, error: ModelError | None, result: str = "") -> Call:
    """What is on record of a call that was not the environment's."""
    return Call(name, arguments, result, None, False, error, 0.0)


def _read(call: Mapping[str, Any]) -> tuple[str | None, Any]:
    """The name and the arguments of a call; no name where it is none of a function, which TRL makes none of."""
    function = call.get("function") or {} if call.get("type") == "function" else {}
    return function.get("name"), function.get("arguments")


class _Results:
    """The results that follow a message, to be taken by name. TRL appends those of asynchronous tools after the others:
    only those of one name are in the order of their calls."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._left = list(takewhile(lambda message: message.get("role") == "tool", messages))

    def take(self, called: Mapping[str, Any]) -> str:
        """The next result under the name that was called; none where it was dropped as too long."""
        name = called.get("name", UNNAMED)
        for message in self._left:
            if message.get("name") == name:
                self._left.remove(message)
                return str(message.get("content") or "")
        return ""
