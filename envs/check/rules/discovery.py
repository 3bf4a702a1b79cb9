"""Health, version and the list of environments."""

from __future__ import annotations

from envs.check.rule import HTTP_API, Evidence, Failed, reference, rule
from envs.check.subject import Subject, can_be_asked_for
from envs.check.survey import Survey

UNKNOWN = "ors-check-unknown"


@rule(
    "ORS-001",
    "The server says that it is healthy",
    'GET /health answers 200 with {"status": "ok"}.',
    HTTP_API,
    scope="server",
)
async def health(subject: Subject, survey: Survey) -> Evidence:
    answer = await subject.wire.request("GET", "/health")
    body = answer.json()
    if answer.status != 200 or not isinstance(body, dict) or body.get("status") != "ok":
        raise answer.failed()
    return answer.evidence


@rule(
    "ORS-002",
    "The server names its version",
    'GET /version answers 200 with {"version": string}; a server without it is judged by the oldest version.',
    reference("0.1.167"),
    level="should",
    scope="server",
)
async def version(subject: Subject, survey: Survey) -> Evidence:
    answer = await subject.wire.request("GET", "/version")
    body = answer.json()
    if answer.status != 200 or not isinstance(body, dict) or not isinstance(body.get("version"), str):
        raise answer.failed()
    return answer.evidence


@rule(
    "ORS-003",
    "The environments are listed",
    "GET /list_environments answers 200 with a list of the names of the environments, each once and in lower case.",
    HTTP_API,
    scope="server",
)
async def environments(subject: Subject, survey: Survey) -> Evidence:
    answer = await subject.wire.request("GET", "/list_environments")
    names = answer.json()
    if answer.status != 200 or not isinstance(names, list) or not names:
        raise answer.failed("not a list of names")
    if not all(isinstance(name, str) and name and name == name.lower() for name in names):
        raise answer.failed("not all names are lower-case strings")
    if not all(can_be_asked_for(name) for name in names):
        raise answer.failed("a name that no path can carry")
    if len(set(names)) != len(names):
        raise answer.failed("a name is listed twice")
    return answer.evidence


@rule(
    "ORS-004",
    "An unknown environment is not found",
    "A session for an environment that the server does not have is refused with 404.",
    HTTP_API,
    level="should",
    scope="server",
)
async def unknown_environment(subject: Subject, survey: Survey) -> Evidence:
    async with subject.closing() as sid:
        answer = await subject.create(sid, env_name=UNKNOWN, task_spec={})
    if answer.status != 404:
        raise answer.failed()
    return answer.evidence


@rule(
    "ORS-005",
    "There is at least one tool",
    'GET /{env}/tools answers 200 with {"tools": [{name, description, input_schema}]}, each name once; '
    "an environment whose only tool is the terminal one has a tool too.",
    HTTP_API,
)
async def tools(subject: Subject, survey: Survey) -> Evidence:
    answer = await subject.wire.request("GET", subject.path("tools"))
    body = answer.json()
    listed = body.get("tools") if answer.status == 200 and isinstance(body, dict) else None
    if not isinstance(listed, list):
        raise answer.failed("no list of tools")
    for tool in listed:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or not tool["name"]:
            raise answer.failed("a tool without a name")
        if not isinstance(tool.get("description"), str):
            raise answer.failed(f"the tool {tool['name']!r} has no description, not even an empty one")
    names = [tool["name"] for tool in listed]
    if len(set(names)) != len(names):
        raise answer.failed("a name is listed twice")
    if not names and not body.get("terminal_tool"):
        raise Failed(answer.sent, f"no tool: {answer.got}")
    return answer.evidence


RULES = (health, version, environments, unknown_environment, tools)
