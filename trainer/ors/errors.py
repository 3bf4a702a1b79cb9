"""What can go wrong between a trainer and an environment, by the boundary it crossed.

Three kinds of trouble, three ways of treating it: what the user asked for cannot be done (`ConfigurationError`, before
the run starts), the model used a tool wrongly (`ToolRefused`, told to the model), the environment failed
(`EnvironmentFailure`, ends one rollout as unscored). Every message is one line that says what happened, where and what
to do.
"""

from __future__ import annotations

from typing import Any, Literal

ModelError = Literal["unknown_tool", "bad_arguments", "malformed_call", "after_end"]
FailureKind = Literal["crash", "timeout", "unreachable", "refused"]

MODEL_ERRORS: tuple[ModelError, ...] = ("unknown_tool", "bad_arguments", "malformed_call", "after_end")
FAILURE_KINDS: tuple[FailureKind, ...] = ("crash", "timeout", "unreachable", "refused")


class ORSError(Exception):
    """Base of everything this package raises on purpose. Pickles with all its attributes, so that it comes home from a
    worker process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, vars(self))


class ConfigurationError(ORSError, ValueError):
    """What was asked for cannot be done: a wrong name, split, index, URL or combination of options."""


class ToolRefused(ORSError):
    """The server refused a tool call because of what the model sent; the episode goes on.

    Args:
        reason: Which mistake it was.
        text: The server's own words, for the model to read.
    """

    def __init__(self, reason: ModelError, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class EnvironmentFailure(ORSError):
    """The environment failed; the rollout it happened in ends, unscored unless it was scored before.

    Args:
        kind: `crash` (its code raised, a 5xx), `timeout` (a deadline passed), `unreachable` (no connection, a lost
            connection, a session that is gone), `refused` (a 4xx: no access, limits).
        text: One line that names the environment and says what happened.
        retry_after: Seconds after which the server asked to be tried again, if it did.
        reached: False where the request cannot have got to the environment, so that repeating it runs nothing twice.
        starting: The backend says it is still starting; waiting is worth it.
    """

    def __init__(
        self,
        kind: FailureKind,
        text: str,
        *,
        retry_after: float | None = None,
        reached: bool = True,
        starting: bool = False,
    ) -> None:
        super().__init__(text)
        self.kind = kind
        self.retry_after = retry_after
        self.reached = reached
        self.starting = starting


def _restored(kind: type[ORSError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> ORSError:
    error = kind.__new__(kind, *arguments)
    vars(error).update(attributes)
    return error
