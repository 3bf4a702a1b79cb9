"""Splits and tasks: four ways to ask for the same list."""

from __future__ import annotations

from typing import Any

from envs.check.rule import HTTP_API, OLDEST, Evidence, Failed, NotSeen, reference, rule
from envs.check.subject import Subject
from envs.check.survey import Survey
from envs.check.wire import Exchange

UNKNOWN = "ors-check-unknown"
_TYPES = ("train", "validation", "test")


@rule(
    "ORS-010",
    "Splits have a name and a type",
    "GET /{env}/splits answers 200 with a list, not empty, of {name, type}; the type is train, validation or test.",
    HTTP_API,
)
async def splits(subject: Subject, survey: Survey) -> Evidence:
    answer = await subject.wire.request("GET", subject.path("splits"))
    listed = answer.json()
    if answer.status != 200 or not isinstance(listed, list) or not listed:
        raise answer.failed("not a list of splits")
    for split in listed:
        if not isinstance(split, dict) or not isinstance(split.get("name"), str) or split.get("type") not in _TYPES:
            raise answer.failed("not every split has a name and one of the three types")
    if len({split["name"] for split in listed}) != len(listed):
        raise answer.failed("a name is listed twice")
    return answer.evidence


@rule(
    "ORS-011",
    "num_tasks counts what tasks lists",
    "POST /{env}/num_tasks answers the number of tasks that POST /{env}/tasks lists for the same split.",
    HTTP_API,
    since=(0, 1, 58),
)
async def counts(subject: Subject, survey: Survey) -> Evidence:
    last: Exchange | None = None
    for split in await subject.splits():
        last = await subject.post("num_tasks", split=split)
        body = last.json()
        number = body.get("num_tasks") if last.status == 200 and isinstance(body, dict) else None
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise last.failed("not a number of tasks")
        listed = await _listed(subject, split)
        if listed is not None and len(listed) != number:
            raise last.failed(f"/tasks lists {len(listed)} tasks")
    assert last is not None
    return last.evidence


@rule(
    "ORS-012",
    "task gives the task of the list",
    "POST /{env}/task answers the task at a place of the list that POST /{env}/tasks gives.",
    HTTP_API,
)
async def by_index(subject: Subject, survey: Survey) -> Evidence:
    split, listed = await _long_enough(subject, 1)
    answer = None
    for index in sorted({0, len(listed) // 2, len(listed) - 1}):
        answer = await subject.post("task", split=split, index=index)
        body = answer.json()
        if answer.status != 200 or not isinstance(body, dict) or "task" not in body:
            raise answer.failed("no task")
        if body["task"] != listed[index]:
            raise answer.failed(f"/tasks has {listed[index]!r} there")
    assert answer is not None
    return answer.evidence


@rule(
    "ORS-013",
    "task_range slices the list",
    "POST /{env}/task_range answers the tasks of a slice: start included, stop not, either left out, "
    "negative ones counted from the end, both moved into bounds.",
    reference("0.1.58"),
    since=(0, 1, 58),
)
async def ranges(subject: Subject, survey: Survey) -> Evidence:
    split, listed = await _long_enough(subject, 1)
    count = len(listed)
    answer = None
    windows = [
        (None, None),
        (0, 1),
        (0, 2),
        (1, None),
        (None, -1),
        (-2, None),
        (-2, -1),
        (count - 1, count + 5),
        (count, count + 5),
        (1, 0),
        (-count - 5, 1),
    ]
    for start, stop in windows:
        bounds = {name: value for name, value in (("start", start), ("stop", stop)) if value is not None}
        answer = await subject.post("task_range", split=split, **bounds)
        body = answer.json()
        if answer.status != 200 or not isinstance(body, dict) or not isinstance(body.get("tasks"), list):
            raise answer.failed("no list of tasks")
        if body["tasks"] != listed[start:stop]:
            raise answer.failed(f"{len(listed[start:stop])} tasks of {count} expected")
    assert answer is not None
    return answer.evidence


@rule(
    "ORS-014",
    "An unknown split is refused",
    "A split that the environment does not have is answered with 400, wherever one is asked for.",
    HTTP_API,
)
async def unknown_split(subject: Subject, survey: Survey) -> Evidence:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("tasks", {}),
        ("num_tasks", {}),
        ("task", {"index": 0}),
        ("task_range", {"start": 0, "stop": 1}),
    ]
    for endpoint, more in asked:
        answer = await subject.post(endpoint, split=UNKNOWN, **more)
        if answer.status != 400:
            raise Failed(
                answer.sent, answer.got, since=(0, 1, 58) if endpoint in ("num_tasks", "task_range") else OLDEST
            )
    async with subject.closing() as sid:
        answer = await subject.create(sid, split=UNKNOWN, index=0)
    if answer.status != 400:
        raise answer.failed()
    return answer.evidence


@rule(
    "ORS-015",
    "An index past the end is refused",
    "An index that the split does not have is answered with 400, by /task and by /create.",
    HTTP_API,
)
async def unknown_index(subject: Subject, survey: Survey) -> Evidence:
    task = (await subject.tasks())[0]
    past = await subject.count(task.split)
    answer = await subject.post("task", split=task.split, index=past)
    if answer.status != 400:
        raise answer.failed(f"the split has {past} tasks")
    async with subject.closing() as sid:
        answer = await subject.create(sid, split=task.split, index=past)
    if answer.status != 400:
        raise answer.failed(f"the split has {past} tasks")
    return answer.evidence


async def _listed(subject: Subject, split: str) -> list[Any] | None:
    """Return all tasks of a split, None where the environment has too many, or can only be asked by index."""
    if await subject.count(split) > subject.wire.limits.listed_tasks:
        return None
    answer = await subject.post("tasks", split=split)
    if answer.status == 400:  # the reference server's answer where an environment has no list
        return None
    body = answer.json()
    if answer.status != 200 or not isinstance(body, dict) or not isinstance(body.get("tasks"), list):
        raise answer.failed("no list of tasks")
    return list(body["tasks"])


async def _long_enough(subject: Subject, at_least: int) -> tuple[str, list[Any]]:
    for split in await subject.splits():
        try:
            listed = await _listed(subject, split)
        except Failed as error:
            raise NotSeen(f"no list to compare with (ORS-011): {error}") from error
        if listed is not None and len(listed) >= at_least:
            return split, listed
    raise NotSeen("no split has a list of tasks to compare with")


RULES = (splits, counts, by_index, ranges, unknown_split, unknown_index)
