"""The adapter: one object a rollout, whose methods are the environment's tools.

TRL makes these objects from a factory, calls `reset(**row)` before an episode and offers every public method to the
model. So this class has no public method but `reset` (and `get_reward`, where it was asked for); what it knows is in
attributes.
"""

from __future__ import annotations

import copyreg
import functools
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from trainer.ors import loop
from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import EnvironmentFailure, FailureKind, ModelError, ORSError, ToolRefused
from trainer.ors.outcomes import Outcome
from trainer.ors.rewards import Reward
from trainer.ors.sessions import Session
from trainer.ors.tools import BoundTool, ToolSpec, bind

STATE = ("reward", "rewards", "metadata", "finished", "last_output", "calls", "failure", "task", "open_seconds")
"""Attributes of an adapter. A tool of such a name is bound under another: an instance's attribute would hide it."""


@dataclass(frozen=True)
class Task:
    """Which task a rollout is of."""

    environment: str
    split: str
    index: int


@dataclass(frozen=True)
class Call:
    """One tool call as it happened. `seconds` is from its sending to its answer, 0 where nothing was sent; `arguments`
    is an object, unless the model wrote something else for it."""

    tool: str
    arguments: Any
    result: str
    reward: float | None
    finished: bool
    error: ModelError | FailureKind | None
    seconds: float


@dataclass(frozen=True)
class _Pending:
    """A call that is under way: what was asked, and where in its turn's answers the answer will be."""

    tool: str
    arguments: Mapping[str, Any]
    turn: Future[list[loop.Answer]]
    position: int


@dataclass(frozen=True)
class Plan:
    """What an adapter class is made from; the class pickles as this."""

    name: str
    endpoint: Endpoint
    split: str
    tools: tuple[ToolSpec, ...] = field(hash=False)
    reward: Reward
    offers_reward: bool


class _AdapterType(type):
    """The class of adapter classes: they are made at run time, so pickle gets the plan instead of a name to import."""

    _plan: Plan


class Rollout(metaclass=_AdapterType):
    """One rollout's environment. Made by `adapter_class`; not to be constructed by hand.

    Attributes:
        reward: Last reward of the episode that was one, None while there is none.
        rewards: One entry a tool call, None where the call was not scored.
        metadata: One entry a tool call, as the environment sent it.
        finished: A tool said that the episode is over.
        last_output: Text of the last tool result.
        calls: What was called, with what, what came back, and how long it took.
        failure: Why the environment could not go on, None while it can.
        task: Which task is being played, None before the first `reset`.
        open_seconds: How long the opening of the session took.
    """

    _plan: ClassVar[Plan]
    _tools: ClassVar[tuple[BoundTool, ...]]
    _schemas: ClassVar[list[dict[str, Any]]]
    """The tools with the server's parameters verbatim, for a trainer that can show them to the model."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self._session: Session | None = None
        self._opening: tuple[Task, Future[Session], float] | None = None
        self._pending: deque[_Pending] = deque()
        self._dispatch: Callable[[], None] | None = None  # sends off what all rollouts of the turn have to call
        self._clear()

    def _clear(self) -> None:
        self.reward: float | None = None
        self.rewards: list[float | None] = []
        self.metadata: list[dict[str, Any] | None] = []
        self.finished = False
        self.last_output = ""
        self.calls: list[Call] = []
        self.failure: EnvironmentFailure | None = None
        self.open_seconds = 0.0
        self._waited_open = self._waited_calls = 0.0  # seconds that the calling thread was held up
        self._pending.clear()

    def reset(self, /, **row: Any) -> str:
        """Close the last session, open one for the row's task and split, and give its prompt.

        Never raises for what the environment does: the rollout is then unscored, its `failure` says why, and the model
        is told that there is nothing to do.
        """
        task = self._task_of(row)
        if self._opening is None or self._opening[0] != task:
            self._close()
            self._opening = self._open(task)
        self._clear()
        self.task = task
        _, future, started = self._opening
        asked = time.monotonic()
        try:
            self._session = future.result()
        except ORSError as error:
            failure = error if isinstance(error, EnvironmentFailure) else EnvironmentFailure("refused", str(error))
            self._opening, self.failure = None, failure
            self._waited_open, self.open_seconds = time.monotonic() - asked, time.monotonic() - started
            return "The environment could not be reached. There is nothing to do."
        self._opening = None
        self._waited_open, self.open_seconds = time.monotonic() - asked, self._session.opened - started
        return self._session.prompt

    def _task_of(self, row: Mapping[str, Any]) -> Task:
        index, split = row.get("task_index"), row.get("split")
        return Task(self._plan.name, str(split or self._plan.split), int(index if index is not None else 0))

    def _open(self, task: Task) -> tuple[Task, Future[Session], float]:
        return task, loop.open_session(self._plan.endpoint, task.split, task.index), time.monotonic()

    def _prepare(self, row: Mapping[str, Any]) -> None:
        """Begin what `reset` with this row will wait for, so that a batch's sessions open together."""
        self._close()
        self._opening = self._open(self._task_of(row))

    def _close(self) -> None:
        """End the session, or the opening of one, without waiting."""
        endpoint = self._plan.endpoint
        if self._opening is not None:
            self._opening[1].add_done_callback(functools.partial(_close_opened, endpoint))
            self._opening = None
        if self._session is not None:
            loop.close_session(endpoint, self._session)
            self._session = None

    def __del__(self) -> None:
        """Who drops an adapter is done with its session, which keepalive would hold open to the end of the process."""
        with suppress(Exception):  # nobody could catch it here
            self._close()

    def _start(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Send a turn's calls off, one after the other; the tools' methods will wait for them."""
        if self._session is None or self.finished or self.failure is not None:
            return
        turn = loop.call_tools(self._plan.endpoint, self._session, calls)
        self._pending.extend(_Pending(*call, turn, position) for position, call in enumerate(calls))

    def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        """What a tool's method does: send the call, unless it is under way already, and keep what comes of it."""
        if self.task is None:
            raise RuntimeError(f"the tool {tool!r} was called before reset() opened an episode")
        if self._dispatch is not None and not self._pending:
            self._dispatch()
        if not self._pending:
            self._start([(tool, arguments)])
        if not self._pending:
            return self._keep(tool, arguments, self.failure or ToolRefused("after_end", loop.AFTER_END), 0.0)
        pending = self._pending.popleft()
        if (pending.tool, pending.arguments) != (tool, arguments):
            raise RuntimeError(f"the tool {tool!r} was called where {pending.tool!r} is under way")
        asked = time.monotonic()
        answers = pending.turn.result()
        self._waited_calls += time.monotonic() - asked
        return self._keep(tool, arguments, *answers[pending.position])

    def _keep(self, tool: str, arguments: Mapping[str, Any], answer: Outcome | ORSError, seconds: float) -> str:
        error: ModelError | FailureKind | None = None
        outcome = Outcome("", None, False, None)
        if isinstance(answer, Outcome):
            outcome = answer
        elif isinstance(answer, ToolRefused):
            error = answer.reason
            outcome = Outcome(f"Error: {answer}", None, False, None)
        elif isinstance(answer, EnvironmentFailure):
            error = answer.kind
            outcome = Outcome("Error: the environment failed. The episode is over.", None, False, None)
            self.failure = self.failure or answer
        if outcome.reward is not None:
            self.reward = outcome.reward
        self.rewards.append(outcome.reward)
        self.metadata.append(outcome.metadata)
        self.finished = self.finished or outcome.finished or error == "after_end"
        self.last_output = outcome.text
        self.calls.append(Call(tool, arguments, outcome.text, outcome.reward, outcome.finished, error, seconds))
        return outcome.text


def _close_opened(endpoint: Endpoint, opened: Future[Session]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        loop.close_session(endpoint, opened.result())


def _get_reward(self: Rollout) -> float | None:
    """The episode's score, for trainers that ask the environment instead of a reward function."""
    return self._plan.reward.score(self)


@functools.cache
def adapter_class(plan: Plan) -> type[Rollout]:
    """The adapter class of an environment. The same plan gives the same class within a process, so that TRL, which
    compares types, takes the environments of two factories for one where they are one."""
    tools = tuple(bind(plan.tools, reserved=STATE))
    members: dict[str, Any] = {tool.attribute: tool.function for tool in tools}
    members |= {"_plan": plan, "_tools": tools, "_schemas": [tool.schema for tool in tools], "__doc__": Rollout.__doc__}
    if plan.offers_reward:
        members["get_reward"] = _get_reward
    return cast(type[Rollout], _AdapterType("Rollout", (Rollout,), members))


def _reduce(cls: _AdapterType) -> str | tuple[Any, ...]:
    return (adapter_class, (cls._plan,)) if "_plan" in vars(cls) else cls.__qualname__


copyreg.pickle(_AdapterType, _reduce)


@dataclass(frozen=True)
class Factory:
    """What TRL calls an environment factory: makes a fresh adapter a call. Picklable, so workers can be spawned."""

    plan: Plan

    def __call__(self) -> Rollout:
        return adapter_class(self.plan)()
