"""The tools' schemas: a trainer makes a function with typed parameters of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envs.check import arguments
from envs.check.rule import HTTP_API, Evidence, Failed, NotSeen, reference, rule
from envs.check.subject import Subject
from envs.check.survey import Survey


def _schemas(subject: Subject, survey: Survey) -> tuple[str, dict[str, dict[str, Any]]]:
    found = {name: schema for name, schema in survey.tools.items() if schema}
    if not found:
        raise NotSeen(survey.problem or "no tool takes arguments")
    return f"GET {subject.path('tools')}", found


@rule(
    "ORS-006",
    "Tool schemas are valid JSON Schema",
    "A tool's input_schema is a JSON Schema, null where the tool takes no arguments.",
    HTTP_API,
)
async def valid(subject: Subject, survey: Survey) -> Evidence:
    sent, found = _schemas(subject, survey)
    for name, schema in found.items():
        if problem := arguments.problem(schema):
            raise Failed(sent, f"{name}: {problem}")
    return Evidence(sent, f"{len(found)} valid schemas")


@rule(
    "ORS-007",
    "Tool schemas can be bound to a function",
    "A tool's input is an object; its properties are schemas by name, and every $ref leads to a place in it.",
    HTTP_API,
)
async def bindable(subject: Subject, survey: Survey) -> Evidence:
    sent, found = _schemas(subject, survey)
    for name, schema in found.items():
        kind = schema.get("type", "object")
        if kind != "object":
            raise Failed(sent, f"{name}: the input is of type {kind!r}, not an object")
        known = schema.get("properties", {})
        if not isinstance(known, Mapping) or not all(isinstance(one, Mapping | bool) for one in known.values()):
            raise Failed(sent, f"{name}: properties is not an object of schemas")
        for reference_ in _references(schema):
            if not _leads_somewhere(schema, reference_):
                raise Failed(sent, f"{name}: {reference_!r} leads nowhere in the schema")
    return Evidence(sent, f"{len(found)} schemas can be bound")


@rule(
    "ORS-008",
    "Required parameters are described",
    "Every name in a schema's required is one of its properties.",
    "JSON Schema 2020-12, validation, required; a parameter without a schema has no type to give the model",
    level="should",
)
async def required(subject: Subject, survey: Survey) -> Evidence:
    sent, found = _schemas(subject, survey)
    for name, schema in found.items():
        needed = schema.get("required", [])
        missing = [one for one in needed if one not in arguments.properties(schema)] if isinstance(needed, list) else []
        if missing:
            raise Failed(sent, f"{name}: required but not among the properties: {', '.join(map(str, missing))}")
    return Evidence(sent, f"{len(found)} schemas")


@rule(
    "ORS-009",
    "A terminal tool is described and hidden",
    "terminal_tool is null or {name, arg: string or null, description}, and the list of tools leaves that tool out.",
    reference("0.1.141"),
    since=(0, 1, 141),
)
async def terminal(subject: Subject, survey: Survey) -> Evidence:
    answer = await subject.wire.request("GET", subject.path("tools"))
    body = answer.json()
    found = body.get("terminal_tool") if isinstance(body, dict) else None
    if found is None:
        raise NotSeen("the environment has no terminal tool")
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise answer.failed("the terminal tool has no name")
    if not isinstance(found.get("arg"), str | None):
        raise answer.failed("arg is neither a string nor null")
    if any(isinstance(tool, dict) and tool.get("name") == found["name"] for tool in body.get("tools") or []):
        raise answer.failed(f"{found['name']!r} is terminal and in the list of tools")
    return answer.evidence


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _leads_somewhere(schema: Mapping[str, Any], reference_: str) -> bool:
    if not reference_.startswith("#"):
        return False
    place: Any = schema
    for part in filter(None, reference_[1:].split("/")):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(place, Mapping) or name not in place:
            return False
        place = place[name]
    return isinstance(place, Mapping | bool)


RULES = (valid, bindable, required, terminal)
