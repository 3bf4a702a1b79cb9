"""A rollout as the page shows it: the prompt, then what the model wrote and called and what came back, in order."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.report_run import ENVIRONMENT_ERRORS, MODEL_ERRORS, number, record, records
from trainer.report_text import Passage, passage, without_userinfo

_FIRST_EVENTS = 8
_LAST_EVENTS = 4

ENDINGS = {
    "finished": "finished by the environment",
    "stopped": "model stopped calling",
    "length": "ran out of tokens",
    "tool_limit": "tool-call limit",
    "environment_error": "environment error",
    "open_failed": "session did not open",
    "interrupted": "interrupted: the run ended first",
}


@dataclass(frozen=True)
class Event:
    """One thing that happened in a rollout.

    Args:
        kind: "prompt", "model", "call", "result" or "gap" (events left out of a long rollout).
        heading: who or what: a role, "tool call", a gap's extent.
        call: the tool and its arguments.
        body: what was said, or a call's result.
        reward: a call's reward as shown, else "".
        error: a call's error in words, else "".
        seconds: a call's duration as shown, else "".
    """

    kind: str
    heading: str = ""
    call: Passage | None = None
    body: Passage | None = None
    reward: str = ""
    error: str = ""
    seconds: str = ""


@dataclass(frozen=True)
class Card:
    """A rollout ready for the template, every field but the events a text.

    Args:
        outcome: "scored" (a reward above zero), "zero" (or below) or "unscored".
    """

    step: str
    task: str
    reward: str
    outcome: str
    ending: str
    error: str
    timing: str
    events: Sequence[Event]


def card(row: dict[str, Any]) -> Card:
    """Makes a card of one line of rollouts.jsonl, whatever parts of it are there."""
    reward = number(row.get("reward"))
    seconds = record(row.get("seconds"))
    timings = [
        f"{name} {_seconds(value)}" for name in ("open", "calls") if (value := number(seconds.get(name))) is not None
    ]
    place = [str(row[key]) for key in ("environment", "split") if row.get(key)]
    if row.get("task_index") is not None:
        place.append(f"task {row['task_index']}")
    ending = str(row.get("ending") or "not recorded")
    step = number(row.get("step"))
    return Card(
        step="" if step is None else f"step {step:.0f}",
        task=" · ".join(place),
        reward="unscored" if reward is None else f"{reward:.4g}",
        outcome="unscored" if reward is None else "scored" if reward > 0 else "zero",
        ending=ENDINGS.get(ending, ending),
        error=without_userinfo(str(row.get("error") or "")),
        timing=", ".join(timings),
        events=_shortened([*_prompt(row.get("prompt")), *_conversation(row)]),
    )


def _prompt(prompt: object) -> Iterator[Event]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else records(prompt)
    for message in messages:
        yield Event("prompt", str(message.get("role") or "prompt"), body=passage(_content(message.get("content"))))


def _conversation(row: dict[str, Any]) -> Iterator[Event]:
    """The completion in order, each tool call with what is on record about it (result, reward, error, seconds)."""
    recorded = deque(records(row.get("calls")))
    completion = row.get("completion")
    messages = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else records(completion)
    answered = 0
    for message in messages:
        text = _content(message.get("content"))
        if message.get("role") == "tool":
            if answered:
                answered -= 1
            else:
                yield Event("result", str(message.get("name") or "tool"), body=passage(text))
            continue
        calls = records(message.get("tool_calls"))
        malformed = not calls and recorded and recorded[0].get("error") == "malformed_call"
        if malformed:
            recorded.popleft()
        if text.strip():
            error = MODEL_ERRORS["malformed_call"] if malformed else ""
            yield Event("model", str(message.get("role") or "assistant"), body=passage(text), error=error)
        for asked in calls:
            call = recorded.popleft() if recorded else None
            if call is None:
                function = record(asked.get("function"))
                written = _written(function.get("name"), function.get("arguments"))
                yield Event("call", "tool call", written, error="not carried out")
            else:
                answered += 1
                yield _call(call)
    yield from map(_call, recorded)


def _call(call: dict[str, Any]) -> Event:
    reward, seconds = number(call.get("reward")), number(call.get("seconds"))
    error = str(call.get("error") or "")
    result = _content(call.get("result"))
    return Event(
        "call",
        "tool call",
        _written(call.get("tool"), call.get("arguments")),
        passage(without_userinfo(result) if error else result),
        "" if reward is None else f"{reward:.4g}",
        (MODEL_ERRORS | ENVIRONMENT_ERRORS).get(error, error),
        "" if seconds is None else _seconds(seconds),
    )


def _content(content: object) -> str:
    """A message's content as text: parts that are no text are named by their type."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return json.dumps(content, ensure_ascii=False)


def _part(part: object) -> str:
    if isinstance(part, dict):
        text = part.get("text")
        return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"
    return str(part)


def _written(tool: object, arguments: object) -> Passage:
    """A call as a programmer would write it, strings of several lines set out as lines."""
    if isinstance(arguments, dict):
        inside = ", ".join(f"{name}={_value(value)}" for name, value in arguments.items())
    elif isinstance(arguments, str):
        inside = arguments
    else:
        inside = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return passage(f"{tool or '(no name)'}({inside})")


def _value(value: object) -> str:
    if isinstance(value, str) and "\n" in value.strip():
        return '"""\n' + value.rstrip("\n") + '\n"""'
    return json.dumps(value, ensure_ascii=False)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.0f} ms"


def _shortened(events: list[Event]) -> list[Event]:
    omitted = len(events) - _FIRST_EVENTS - _LAST_EVENTS
    if omitted <= 1:
        return events
    return [*events[:_FIRST_EVENTS], Event("gap", f"{omitted} more turns and calls"), *events[-_LAST_EVENTS:]]
