"""One fault for every rule of the conformance check, each as small as it can be: what a real server gets wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.envs.fault_kinds import (
    ENV,
    Fault,
    Forward,
    Request,
    Response,
    answer,
    instead,
    on,
    outputs,
    reasons,
    sending,
    stream,
)


def another_tool(schema: dict[str, Any]) -> Callable[[], Fault]:
    """List one more tool, shared and in sessions."""
    tool = {"name": "zebra", "description": "", "input_schema": schema}

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path not in (f"{ENV}/tools", f"{ENV}/task_tools"):
            return None
        listed = (await forward(request)).json
        return answer({**listed, "tools": [*listed["tools"], tool]})

    return lambda: fault


def terminal_in_the_list() -> Fault:
    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path not in (f"{ENV}/tools", f"{ENV}/task_tools"):
            return None
        listed = (await forward(request)).json
        name = listed["terminal_tool"]["name"]
        return answer({**listed, "tools": [*listed["tools"], {"name": name, "description": "", "input_schema": None}]})

    return fault


def tools_that_come_with_the_setup() -> Fault:
    set_up: set[str] = set()

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path == f"{ENV}/prompt":
            set_up.add(request.session)
        if request.path != f"{ENV}/task_tools" or request.session not in set_up:
            return None
        listed = (await forward(request)).json
        late = {"name": "late", "description": "", "input_schema": None}
        return answer({**listed, "tools": [*listed["tools"], late]})

    return fault


def unknown_session_crashes() -> Fault:
    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path != "/ping":
            return None
        response = await forward(request)
        return answer({"detail": "KeyError"}, 500) if response.status == 404 else response

    return fault


def created_twice() -> Fault:
    opened: set[str] = set()

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path != "/create":
            return None
        if request.session in opened:
            return answer({"sid": request.session})
        response = await forward(request)
        if response.status == 200:
            opened.add(request.session)
        return response

    return fault


def deleted_once() -> Fault:
    gone: set[str] = set()

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path != "/delete":
            return None
        if request.session in gone:
            return answer({"detail": "no such session"}, 404)
        gone.add(request.session)
        return await forward(request)

    return fault


def one_episode_for_all() -> Fault:
    """Every call goes to the session that was opened last."""
    opened: list[str] = []

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path == "/create":
            opened.append(request.session)
        if request.path == "/delete" and request.session in opened:
            opened.remove(request.session)
        if request.path == f"{ENV}/call" and request.json.get("name") != "wait":
            return await forward(replace(request, headers={**request.headers, "x-session-id": opened[-1]}))
        return None

    return fault


def three_sessions_at_most() -> Fault:
    opened: set[str] = set()

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path == "/delete":
            opened.discard(request.session)
        if request.path != "/create" or request.json.get("split") != "train":
            return None
        if len(opened) >= 3:
            return answer({"detail": "too many sessions"}, 503)
        opened.add(request.session)
        return await forward(request)

    return fault


def refusal_ends_the_session() -> Fault:
    ended: set[str] = set()

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path != f"{ENV}/call" or request.json.get("name") == "wait":
            return None
        if request.session in ended:
            return stream(("task_id", "ended"), ("error", "the session has ended"))
        response = await forward(request)
        if response.result.get("reason") == "not_found":
            ended.add(request.session)
        return response

    return fault


def runs_again(known: bool) -> Callable[[], Fault]:
    """A task_id is not looked at: the tool runs. Only for ids that calls have had, or only for others."""

    def make() -> Fault:
        given: set[str] = set()

        async def fault(request: Request, forward: Forward) -> Response | None:
            if request.path != f"{ENV}/call" or request.json.get("name") == "wait":
                return None
            asked = request.json.get("task_id")
            if asked is not None and (asked in given) is known:
                request = request.having(task_id=None)
            response = await forward(request)
            given.update(data for name, data in response.events if name == "task_id")
            return response

        return fault

    return make


def calls(change: Callable[[Response], Response]) -> Callable[[], Fault]:
    """Change the stream of every call but the slow one's."""

    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path != f"{ENV}/call" or request.json.get("name") == "wait":
            return None
        return change(await forward(request))

    return lambda: fault


def held_back() -> Fault:
    """The slow tool's stream arrives in one piece at its end, as it does behind a proxy that buffers."""

    async def fault(request: Request, forward: Forward) -> Response | None:
        return await forward(request) if request.json.get("name") == "wait" else None

    return fault


def create(wanted: Callable[[dict[str, Any]], bool]) -> Callable[[Request], bool]:
    return lambda request: wanted(request.json)


def _split_and_index(body: dict[str, Any]) -> bool:
    return "split" in body and "index" in body


FAULTS: dict[str, Callable[[], Fault]] = {
    "ORS-001": on("/health", lambda body: {"status": "well"}, "GET"),
    "ORS-002": instead("/version", lambda request: True, {"detail": "Not Found"}, 404),
    "ORS-003": on("/list_environments", lambda names: [*names, *names], "GET"),
    "ORS-004": sending(
        "/create", create(lambda body: body["env_name"] != "conformance"), lambda request: request.having(env_name=None)
    ),
    "ORS-005": on(f"{ENV}/tools", lambda body: {**body, "tools": [{"name": t["name"]} for t in body["tools"]]}, "GET"),
    "ORS-006": another_tool({"type": "object", "properties": {"text": {"type": "text"}}}),
    "ORS-007": another_tool({"type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}}, "required": ["at"]}),
    "ORS-008": another_tool({"type": "object", "properties": {}, "required": ["ghost"]}),
    "ORS-009": terminal_in_the_list,
    "ORS-010": on(f"{ENV}/splits", lambda splits: [{**split, "type": "training"} for split in splits], "GET"),
    "ORS-011": on(f"{ENV}/num_tasks", lambda body: {"num_tasks": body["num_tasks"] + 1}),
    "ORS-012": sending(
        f"{ENV}/task", lambda request: request.json["index"] == 4, lambda request: request.having(index=3)
    ),
    "ORS-013": sending(
        f"{ENV}/task_range", lambda request: request.json.get("start", 0) < 0, lambda request: request.having(start=0)
    ),
    "ORS-014": instead(f"{ENV}/tasks", lambda request: "unknown" in request.json.get("split", ""), {"tasks": []}),
    "ORS-015": instead(f"{ENV}/task", lambda request: request.json["index"] == 5, {"detail": "no such task"}, 404),
    "ORS-020": instead("/create_session", lambda request: True, {"sid": "e4b1c6de"}),
    "ORS-021": on("/create", lambda body: {"ok": True}),
    "ORS-022": instead(
        "/create",
        create(lambda body: "task_spec" in body and "split" not in body and body["env_name"] == "conformance"),
        {"detail": "Internal Server Error"},
        500,
    ),
    "ORS-023": sending(
        "/create",
        create(lambda body: "task_spec" in body and _split_and_index(body)),
        lambda request: request.having(task_spec=None),
    ),
    "ORS-024": sending(
        "/create",
        create(lambda body: body.get("env_name") == "conformance" and "task_spec" not in body and "split" not in body),
        lambda request: request.having(split="train", index=0),
    ),
    "ORS-025": created_twice,
    "ORS-026": instead("/ping", lambda request: not request.session, {"status": "ok"}),
    "ORS-027": on(f"{ENV}/prompt", lambda blocks: blocks[0]["text"], "GET"),
    "ORS-028": on(f"{ENV}/messages", lambda messages: {"messages": messages}, "GET"),
    "ORS-029": on(f"{ENV}/task_tools", lambda body: {**body, "tools": body["tools"][1:]}, "GET"),
    "ORS-030": unknown_session_crashes,
    "ORS-031": deleted_once,
    "ORS-032": one_episode_for_all,
    "ORS-033": three_sessions_at_most,
    "ORS-034": tools_that_come_with_the_setup,
    "ORS-040": outputs(metadata=lambda metadata: "none"),
    "ORS-041": reasons("not_found", lambda result: {**result, "reason": "unknown_tool"}),
    "ORS-042": reasons("input_validation", lambda result: {"ok": True, "output": {"error": result["error"]}}),
    "ORS-043": refusal_ends_the_session,
    "ORS-044": outputs(reward=lambda reward: None if reward is None else str(reward)),
    "ORS-045": reasons("episode_finished", lambda result: {"ok": True, "output": {"blocks": [], "finished": True}}),
    "ORS-050": calls(lambda response: stream(response.events[0], ("progress", "1"), *response.events[1:])),
    "ORS-051": runs_again(known=True),
    "ORS-052": runs_again(known=False),
    "ORS-053": held_back,
    # A space after the colon is no part of the data: a chunk that begins with one loses it when the server adds none.
    "ORS-054": calls(lambda response: stream(*response.events, colon=":")),
    "ORS-055": calls(lambda response: stream(*response.events[:2], *response.events[3:] or response.events[2:])),
    "ORS-056": calls(lambda response: replace(response, body=response.body.decode().encode("ascii", "replace"))),
    "ORS-060": lambda: _untouched,  # the server itself leaves one door open
    "ORS-061": instead(f"{ENV}/tasks", lambda request: request.body == b"{", {"detail": "JSONDecodeError"}, 500),
}


def stuck() -> Fault:
    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path == f"{ENV}/call":
            await asyncio.Event().wait()
        return None

    return fault


def hangs_at_its_list() -> Fault:
    async def fault(request: Request, forward: Forward) -> Response | None:
        if request.path == "/list_environments":
            await asyncio.Event().wait()
        return None

    return fault


def tells_the_key() -> Fault:
    async def fault(request: Request, forward: Forward) -> Response | None:
        return answer({"status": "ok", "headers": request.headers}) if request.path == "/health" else None

    return fault


def too_deep() -> Fault:
    async def fault(request: Request, forward: Forward) -> Response | None:
        return Response(200, b"[" * 100_000) if request.path == f"{ENV}/prompt" else None

    return fault


def odd_session_id() -> Fault:
    async def fault(request: Request, forward: Forward) -> Response | None:
        return stream(("task_id", "s中"), ("end", "")) if request.path == "/create_session" else None

    return fault


# Answers of a form that nobody foresees, with the rules that they break.
MALFORMED: dict[str, tuple[Callable[[], Fault], set[str]]] = {
    "schema": (
        another_tool({"type": "object", "properties": {"n": {"multipleOf": 0}}, "required": ["n"]}),
        {"ORS-006"},
    ),
    "schemas-name": (another_tool({"$schema": 5, "required": True}), {"ORS-006"}),
    "tools": (on(f"{ENV}/tools", lambda body: {"tools": 5, "terminal_tool": 5}, "GET"), {"ORS-005", "ORS-009"}),
    "tools-name": (
        on(f"{ENV}/task_tools", lambda body: {"tools": [{"name": ["a"]}]}, "GET"),
        {"ORS-029", "ORS-040"},
    ),
    "depth": (too_deep, {"ORS-027"}),
    "reward": (outputs(reward=lambda reward: 10**400), {"ORS-044"}),
    "session-id": (odd_session_id, {"ORS-020"}),
    "name": (on("/list_environments", lambda names: [*names, "\ud800"], "GET"), {"ORS-003"}),
    "version": (on("/version", lambda body: {"version": "1" * 5_000}, "GET"), set()),
    "count": (on(f"{ENV}/num_tasks", lambda body: {"num_tasks": 10**400}), set()),
    "split": (on(f"{ENV}/splits", lambda splits: [{"name": "\udc80\x1b[2J", "type": "train"}], "GET"), {"ORS-011"}),
}
# Faults that are not about one rule, for tests of the check itself.
FAULTS_BESIDES: dict[str, Callable[[], Fault]] = {
    "stuck": stuck,
    "hangs-at-its-list": hangs_at_its_list,
    "tells-the-key": tells_the_key,
    **{f"malformed-{name}": fault for name, (fault, _) in MALFORMED.items()},
}


async def _untouched(request: Request, forward: Forward) -> Response | None:
    return None
