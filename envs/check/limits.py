"""How much a check may ask of a server: time, requests at once, bytes, calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of one check. Times are seconds.

    Args:
        total: the whole check; rules that have had no turn by then fail.
        rule: one rule on one environment.
        answer: one request, and one tool call that is not meant to be slow.
        starting: how long a session that says it is still starting is waited for.
        slow_call: what a tool that can wait is asked to wait.
        silence: the longest time without a byte that a stream may have; below `slow_call`.
        parallel: sessions opened at once.
        survey_calls: tool calls made to find out what an environment's tools do.
        listed_tasks: a split with more tasks is never fetched as a whole; rules that compare with a list take another.
        body: bytes of one response.
    """

    total: float = 300.0
    rule: float = 60.0
    answer: float = 30.0
    starting: float = 60.0
    # The SDK's server sends a comment every 10 s; its client gives up after 30 s of silence.
    slow_call: float = 14.0
    silence: float = 13.0
    parallel: int = 8
    survey_calls: int = 24
    listed_tasks: int = 2_000
    body: int = 8 * 1024 * 1024
