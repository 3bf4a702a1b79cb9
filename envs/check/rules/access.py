"""Keys, and requests that are no requests."""

from __future__ import annotations

import uuid
from typing import Any

from envs.check.rule import Evidence, Failed, NotSeen, reference, rule
from envs.check.subject import Subject
from envs.check.survey import Survey

_DENIED = (401, 403)


@rule(
    "ORS-060",
    "A key opens every door, and no door is open without it",
    "Where a server asks for a key in X-API-Key, every endpoint but the health check refuses a request without it, "
    "or with another one, with 401 or 403, and takes it with the key.",
    reference("0.1.167, X-API-Key of its client"),
)
async def key(subject: Subject, survey: Survey) -> Evidence:
    if subject.wire.api_key is None:
        raise NotSeen("no key was given (--api-key)")
    outcomes: dict[str, bool] = {}
    for wrong in (None, "ors-check-wrong-key"):
        for method, path, body in _doors(subject):
            sid = str(uuid.uuid4())
            answer = await subject.wire.request(method, path, body, session=sid, key=wrong)
            denied = answer.status in _DENIED
            if answer.status == 200 and path == "/create":
                subject.sessions.add(sid)
            outcomes[f"{answer.sent} {'without a key' if wrong is None else 'with a wrong key'}"] = denied
    for method, path, body in _doors(subject):
        answer = await subject.wire.request(method, path, body, session=str(uuid.uuid4()))
        if answer.status in _DENIED:
            raise answer.failed("with the key")
    if not any(outcomes.values()):
        raise NotSeen("the server asks for no key")
    opened = [request for request, denied in outcomes.items() if not denied]
    if opened:
        raise Failed(opened[0], f"not refused, like {len(opened) - 1} more requests of {len(outcomes)}")
    return Evidence(f"{len(outcomes)} requests without the key, half as many with it", "refused without, taken with it")


@rule(
    "ORS-061",
    "A request that is no JSON is the client's fault",
    "A body that is no JSON, or not of the endpoint's form, is answered with a 4xx status.",
    "RFC 9110, section 15.5, client error",
    level="should",
)
async def malformed(subject: Subject, survey: Survey) -> Evidence:
    answer = None
    for raw in (b"{", b"[]", b'{"split": {}}'):
        answer = await subject.wire.request("POST", subject.path("tasks"), raw=raw)
        if not 400 <= answer.status < 500:
            raise answer.failed()
    assert answer is not None
    return answer.evidence


def _doors(subject: Subject) -> list[tuple[str, str, Any]]:
    # Bodies of another form where a request would do something: whether the key is asked for shows before that.
    return [
        ("GET", "/list_environments", None),
        ("GET", subject.path("tools"), None),
        ("GET", subject.path("splits"), None),
        ("POST", subject.path("tasks"), {}),
        ("POST", subject.path("num_tasks"), {}),
        ("POST", subject.path("task"), {}),
        ("POST", subject.path("task_range"), {}),
        ("POST", "/create_session", None),
        ("POST", "/create", {}),
        ("GET", subject.path("prompt"), None),
        ("POST", subject.path("call"), {}),
        ("POST", "/ping", None),
        ("POST", "/delete", None),
    ]


RULES = (key, malformed)
