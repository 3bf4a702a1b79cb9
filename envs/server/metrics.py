"""What the server counts, in Prometheus' text format, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 300)


class Metrics:
    """Counters of sessions, tool calls and refusals, and gauges of what others know."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._created = Counter("ors_sessions_created", "Sessions opened.", registry=registry)
        self._ended = Counter("ors_sessions_ended", "Sessions ended.", ["reason"], registry=registry)
        self._refused = Counter("ors_requests_refused", "Requests refused by a limit.", ["reason"], registry=registry)
        self._running = Gauge("ors_tool_calls_running", "Tool calls running now.", registry=registry)
        self._calls = Counter("ors_tool_calls", "Tool calls.", ["environment", "tool", "outcome"], registry=registry)
        self._seconds = Histogram(
            "ors_tool_call_seconds",
            "Seconds a tool call took.",
            ["environment", "tool"],
            registry=registry,
            buckets=_BUCKETS,
        )
        for reason in ("deleted", "idle", "stopped"):
            self._ended.labels(reason)

    def show(self, name: str, what: str, read: Callable[[], float]) -> None:
        """Add a gauge, whose value is asked for when the metrics are read."""
        Gauge(name, what, registry=self._registry).set_function(read)

    def session_created(self) -> None:
        self._created.inc()

    def session_ended(self, reason: str) -> None:
        """Count the end of a session: "deleted" by its client, "idle" too long, or "stopped" with the server."""
        self._ended.labels(reason).inc()

    def refused(self, reason: str) -> None:
        """Count a refusal; the reason is one of a fixed few, since every one of them is a time series."""
        self._refused.labels(reason).inc()

    def call_started(self) -> None:
        self._running.inc()

    def call_ended(self, environment: str, tool: str, outcome: str, seconds: float) -> None:
        """Count a tool call; a tool that does not exist is given as "", lest clients make up time series."""
        self._running.dec()
        self._calls.labels(environment, tool, outcome).inc()
        self._seconds.labels(environment, tool).observe(seconds)

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)
