"""One request, one call: every byte kept, nothing run twice, no key sent elsewhere."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import free_port
from tests.trainer.scripted_server import Reply, Request, ScriptedServer, scripted
from trainer.ors import sse
from trainer.ors import wire as wire_module
from trainer.ors.errors import EnvironmentFailure
from trainer.ors.http import HTTPStatus
from trainer.ors.sse import EventReader
from trainer.ors.wire import Wire

T = TypeVar("T")
BODY = {"name": "add", "input": {"n": 1}}
SECRETS = {"X-API-Key": "key-1", "X-Secrets": "secrets-1", "Authorization": "Bearer token-1"}


def on_wire(
    url: str,
    ask: Callable[[Wire], Awaitable[T]],
    headers: dict[str, str] | None = None,
    trace: aiohttp.TraceConfig | None = None,
    **more: Any,
) -> T:
    async def run() -> T:
        async with aiohttp.ClientSession(trace_configs=[trace] if trace is not None else None) as client:
            return await ask(Wire(client, url, headers or {}, "shop", **more))

    return asyncio.run(run())


def call(url: str) -> Any:
    return on_wire(url, lambda wire: wire.call("/shop/call", "s1", BODY))


def failure_of(ask: Callable[[], Any]) -> EnvironmentFailure:
    with pytest.raises(EnvironmentFailure) as caught:
        ask()
    return caught.value


def result_events(result: str, size: int = 4096) -> list[tuple[str, str]]:
    """A result as the SDK's server cuts it: chunks of so many characters, the last one named `end`."""
    pieces = [result[at : at + size] for at in range(0, len(result), size)]
    return [("end" if at == len(pieces) - 1 else "chunk", piece) for at, piece in enumerate(pieces)]


# ── reading server-sent events ─────────────────────────────────────


def read(*pieces: bytes) -> list[tuple[str, str]]:
    reader = EventReader()
    return [(event.name, event.data) for piece in pieces for event in reader.feed(piece)]


def by_the_standard(stream: bytes) -> list[tuple[str, str]]:
    """The events of a whole stream, read the plainest way: WHATWG HTML, 9.2.6."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = re.split("\r\n|\n|\r", text)[:-1]  # what the last line end does not end is no line
    events, name, data = [], "", ""
    for line in lines:
        if line == "":
            if data:
                events.append((name or "message", data[:-1]))
            name, data = "", ""
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "event":
                name = value
            elif field == "data":
                data += value + "\n"
    return events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [("message", "a")]),
        (b"event: end\rdata: a\r\r", [("end", "a")]),
        (b"\xef\xbb\xbfevent: end\ndata: a\n\n", [("end", "a")]),
        (b"event: end\n\ndata: a\n\n", [("message", "a")]),
        (b"data\n\n", [("message", "")]),
        (b"data\ndata\n\n", [("message", "\n")]),
        (b"data:   a \n\n", [("message", "  a ")]),
        (b": ping - 2026\r\n\r\ndata: a\r\n\r\n", [("message", "a")]),
        (b"id: 1\nretry: 5\nother: x\ndata: a\n\n", [("message", "a")]),
        (b"data: not ended\n", []),
        ("data: \u2028\u0085\n\n".encode(), [("message", "\u2028\u0085")]),
        (b"data: \xef\xbb\xbf\n\n", [("message", "\ufeff")]),
    ],
)
def test_events_are_read_as_the_standard_says(stream: bytes, events: list[tuple[str, str]]) -> None:
    assert by_the_standard(stream) == events
    assert read(stream) == events
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == events


_LINE = st.sampled_from(
    [
        b"",
        b"data",
        b"data:",
        b"data: x",
        b"data:  y ",
        b"event: end",
        b"event",
        b": c",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbfdata: b",
        b"\xf0\x9f\x98\x80",
    ]
) | st.binary(max_size=6)


@given(
    st.lists(st.tuples(_LINE, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=30),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_any_stream_in_any_pieces_reads_as_the_standard_says(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    at = [0, *sorted(cuts), len(stream)]
    assert read(*(stream[start:stop] for start, stop in itertools.pairwise(at))) == by_the_standard(stream)


@pytest.mark.parametrize("line", [b"data: " + b"x" * 1000 + b"\n", b"x" * 1000])
def test_an_event_without_end_is_given_up(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100_000)
    reader = EventReader()
    with pytest.raises(ValueError, match="over 100000 bytes"):
        for _ in range(200):
            reader.feed(line)


def test_a_result_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100_000)

    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"))
        while True:
            await reply.event(("chunk", "x" * 4096))

    with scripted(answer) as server:
        assert "100000 bytes" in str(failure_of(lambda: call(server.url)))


TEXTS = {
    "spaces": " " * 20_000,
    "yaml": "a:\n  - b\n  -   c: |\n      d\n" * 900,
    "python": "def f(x):\n    if x:\n        return  x\n\n" * 600,
    "crlf": "one\r\ntwo\r\rthree\n\n" * 1500,
    "tabs": "\t\ta\t b\t" * 2500,
    "emoji": "\U0001f600 e\u0301 日本 \u2028 " * 1500,
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("shift", range(0, 6))
def test_a_result_arrives_as_it_was_sent(name: str, shift: int) -> None:
    """`shift` moves every character across the 4,096-character border at which servers cut."""
    sent = {"ok": True, "text": " " * shift + TEXTS[name]}
    stream = b"".join(
        f"event: {event}\r\ndata: {data}\r\n\r\n".encode()
        for event, data in result_events(json.dumps(sent, ensure_ascii=False))
    )
    pieces = [stream[at : at + 977] for at in range(0, len(stream), 977)]

    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"))
        for piece in pieces:
            await reply.raw(piece)

    with scripted(answer) as server:
        assert call(server.url) == sent


# ── a call runs once ───────────────────────────────────────────────


def test_a_broken_call_is_taken_up_again_by_its_task_id() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if "task_id" not in request.json:
            await reply.stream(("task_id", "t1"), ("chunk", '{"half'))
            reply.reset()
        else:
            await reply.stream(("task_id", "t1"), ("chunk", '{"whole"'), ("end", ": 1}"))

    with scripted(answer) as server:
        assert call(server.url) == {"whole": 1}
        assert [request.json.get("task_id") for request in server.requests] == [None, "t1"]


@pytest.mark.parametrize("before", [(), (("task_id", "t1"),)])
def test_a_whole_result_counts_though_the_connection_breaks_after_it(before: tuple[tuple[str, str], ...]) -> None:
    """As where a server, or a proxy, ends before the last chunk of the body."""

    async def answer(request: Request, reply: Reply) -> None:
        events = "".join(f"event: {name}\r\ndata: {data}\r\n\r\n" for name, data in (*before, ("end", "1")))
        await reply.head(Content_Type="text/event-stream", Transfer_Encoding="chunked")
        await reply.raw(f"{len(events):x}\r\n{events}\r\n".encode())

    with scripted(answer) as server:
        assert call(server.url) == 1
        assert len(server.requests) == 1


def test_a_call_that_breaks_before_its_task_id_is_not_sent_again() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.head(Content_Type="text/event-stream", Connection="close")
        reply.reset()

    with scripted(answer) as server:
        assert failure_of(lambda: call(server.url)).kind == "unreachable"
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_error_does_not_say_that_the_call_did_not_run(status: int) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.json({"detail": "bad gateway"}, status)

    with scripted(answer) as server:
        assert failure_of(lambda: call(server.url)).kind == "unreachable"
        assert len(server.requests) == 1


def test_a_stream_that_ends_early_before_its_task_id_is_unreachable() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream()

    with scripted(answer) as server:
        assert failure_of(lambda: call(server.url)).kind == "unreachable"
        assert len(server.requests) == 1


def test_a_refused_connection_is_tried_again() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"), ("end", "1"))

    async def was_refused(*_: Any) -> None:
        refused.set()

    port, trace, refused = free_port(), aiohttp.TraceConfig(), asyncio.Event()
    trace.on_request_exception.append(was_refused)

    async def later(wire: Wire) -> Any:
        under_way = asyncio.create_task(wire.call("/shop/call", "s1", BODY))
        await refused.wait()
        server = await asyncio.to_thread(ScriptedServer, answer, port)
        try:
            return await under_way, len(server.requests)
        finally:
            await asyncio.to_thread(server.close)

    assert on_wire(f"http://127.0.0.1:{port}", later, trace=trace) == (1, 1)


@pytest.mark.parametrize("closed", [1, 2])
def test_a_call_of_which_nothing_was_sent_is_sent_on_another_connection(closed: int) -> None:
    """The server closes a connection as idle after it was chosen and before the first byte is written on it."""

    async def answer(request: Request, reply: Reply) -> None:
        if request.path == "/ping":
            await asyncio.to_thread(together.wait, 30)  # so that there are several connections to use again
            await reply.json({})
        else:
            await reply.stream(("task_id", "t1"), ("end", str(server.count("/shop/call"))))

    async def close(*_: Any) -> None:
        if len(reused) < closed:
            [protocol] = connectors[0]._acquired
            reused.append(protocol)
            if sys.version_info >= (3, 12):  # aiohttp writes as soon as it has chosen
                protocol.transport.close()
            else:  # there is a turn of the loop in between
                asyncio.get_running_loop().call_soon(protocol.transport.close)

    async def ask(wire: Wire) -> Any:
        connectors.append(wire._client.connector)
        await asyncio.gather(*(wire.request("POST", "/ping", sid="s1") for _ in range(3)))
        return await wire.call("/shop/call", "s1", BODY)

    together, reused, connectors = threading.Barrier(3), [], []  # type: ignore[var-annotated]
    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(close)
    with scripted(answer) as server:
        assert on_wire(server.url, ask, trace=trace) == 1
        assert (len(reused), server.count("/shop/call")) == (closed, 1)


def test_a_call_that_was_sent_on_a_connection_just_closed_is_not_sent_again() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.path == "/ping":
            await reply.json({})
        else:
            reply.reset()

    async def ask(wire: Wire) -> Any:
        await wire.request("POST", "/ping", sid="s1")
        return await wire.call("/shop/call", "s1", BODY)

    with scripted(answer) as server:
        assert failure_of(lambda: on_wire(server.url, ask)).reached
        assert server.count("/shop/call") == 1


@pytest.mark.parametrize(
    ("status", "headers"),
    [(503, {"X_Backend_State": "starting", "Retry_After": "0"}), (429, {"Retry_After": "0"})],
)
def test_a_backend_that_starts_or_asks_to_wait_is_waited_for(
    status: int, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_module, "BACKOFF", (0.01, 0.01))

    async def answer(request: Request, reply: Reply) -> None:
        if len(server.requests) <= 12:
            await reply.json({"detail": "not yet"}, status, **headers)
        else:
            await reply.stream(("task_id", "t1"), ("end", "1"))

    with scripted(answer) as server:
        assert call(server.url) == 1


def test_a_server_that_asks_to_wait_is_given_the_time() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            await reply.json({"detail": "slowly"}, 429, Retry_After="1")
        else:
            await reply.stream(("task_id", "t1"), ("end", "1"))

    times: list[float] = []
    with scripted(answer) as server:
        assert call(server.url) == 1
    assert times[1] - times[0] >= 1.0


def test_silence_breaks_a_stream_and_the_call_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "HEARTBEAT", 0.3)

    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"))
        if "task_id" not in request.json:
            await asyncio.sleep(60)
        await reply.event(("end", "1"))

    with scripted(answer) as server:
        assert call(server.url) == 1
        assert len(server.requests) == 2


def test_comments_keep_a_quiet_stream_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "HEARTBEAT", 2.0)

    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"))
        for _ in range(30):
            await reply.raw(b": ping\r\n\r\n")
            await asyncio.sleep(0.1)
        await reply.event(("end", "1"))

    with scripted(answer) as server:
        assert call(server.url) == 1
        assert len(server.requests) == 1


def test_a_task_that_the_server_forgot_is_no_crash_of_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if "task_id" not in request.json:
            await reply.stream(("task_id", "t1"))
            reply.reset()
        else:
            await reply.stream(("error", "unknown task_id"))

    with scripted(answer) as server:
        failure = failure_of(lambda: call(server.url))
    assert failure.kind == "unreachable"
    assert "restarted" in str(failure)
    assert len(server.requests) == 2


def test_a_call_that_breaks_again_and_again_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "BACKOFF", (0.01, 0.01))

    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"))
        reply.reset()

    with scripted(answer) as server:
        assert failure_of(lambda: call(server.url)).kind == "unreachable"
        assert len(server.requests) == 1 + wire_module.RECONNECTS


def test_a_session_that_is_gone_is_not_asked_again() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if "task_id" not in request.json:
            await reply.stream(("task_id", "t1"))
            reply.reset()
        else:
            await reply.json({"detail": "Active environment not found"}, 404)

    with scripted(answer) as server:
        failure = failure_of(lambda: call(server.url))
        assert isinstance(failure, HTTPStatus)
        assert len(server.requests) == 2


def test_an_error_of_the_tool_is_one_line_that_names_the_environment() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.head(Content_Type="text/event-stream")
        await reply.raw(b"event: task_id\ndata: t1\n\nevent: error\ndata: two\ndata: lines\n\n")

    with scripted(answer) as server:
        failure = failure_of(lambda: call(server.url))
    assert failure.kind == "crash"
    assert str(failure).startswith("shop: ")
    assert "two lines" in str(failure)


@pytest.mark.parametrize("result", ["not json", "[" * 100_000, ""])
def test_a_result_that_is_no_json_is_a_crash(result: str) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"), *result_events(result or " "))

    with scripted(answer) as server:
        assert failure_of(lambda: call(server.url)).kind == "crash"


# ── plain requests ─────────────────────────────────────────────────


def get(url: str, headers: dict[str, str] | None = None) -> Any:
    return on_wire(url, lambda wire: wire.request("GET", "/shop/prompt", sid="s1"), headers)


@pytest.mark.parametrize(
    ("bytes_sent", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[1,", "unreachable"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\n[1,", "crash"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<ht>", "crash"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nContent-Encoding: gzip\r\n\r\n" + b"[" * 20, "unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=martian\r\nContent-Length: 2\r\n\r\n\xff\xfe", "crash"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000, "crash"),
        (b"HTTP/1.1 500 Oh\r\nContent-Type: text/plain; charset=martian\r\nContent-Length: 2\r\n\r\n\xff\xfe", "crash"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "unreachable"),
        (b"", "unreachable"),
    ],
)
def test_an_answer_that_is_broken_is_a_failure_of_the_environment(bytes_sent: bytes, kind: str) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.raw(bytes_sent)

    with scripted(answer) as server:
        assert failure_of(lambda: get(server.url)).kind == kind


def test_a_server_that_never_answers_is_given_up() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await asyncio.sleep(60)

    with scripted(answer) as server:
        ask = lambda wire: wire.request("GET", "/splits")  # noqa: E731
        assert failure_of(lambda: on_wire(server.url, ask, patience=0.3)).kind == "timeout"


@pytest.mark.parametrize("after", ["7", "²", "soon", "-1", "99999", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_retry_after_is_read_where_it_is_a_number_of_seconds(after: str) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.raw(f"HTTP/1.1 429 Slow\r\nRetry-After: {after}\r\nContent-Length: 0\r\n\r\n".encode("latin-1"))

    with scripted(answer) as server:
        failure = failure_of(lambda: get(server.url))
    assert failure.retry_after == {"7": 7.0, "99999": 30.0}.get(after)


def test_a_redirect_on_the_same_host_is_followed_with_headers_and_body() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if request.path == "/shop/call":
            await reply.head(308, Location="/other/call", Content_Length="0")
            reply.keep_open = True
        else:
            await reply.stream(("task_id", "t1"), ("end", json.dumps([request.json, request.headers["x-api-key"]])))

    with scripted(answer) as server:
        assert on_wire(server.url, lambda wire: wire.call("/shop/call", "s1", BODY), SECRETS) == [BODY, "key-1"]


@pytest.mark.parametrize("location", ["{other}/x", "//127.0.0.1:{port}/x", "http://localhost:{port}/x", "ftp://x/"])
def test_a_redirect_to_another_host_is_refused_and_no_header_reaches_it(location: str) -> None:
    async def elsewhere(request: Request, reply: Reply) -> None:
        await reply.json([])

    async def answer(request: Request, reply: Reply) -> None:
        await reply.head(307, Location=location.format(other=other.url, port=other.port), Content_Length="0")

    with scripted(elsewhere) as other, scripted(answer) as server:
        failure = failure_of(lambda: get(server.url, SECRETS))
        assert failure.kind == "refused"
        assert "redirects to" in str(failure)
        assert other.requests == []


@pytest.mark.parametrize("location", ["http://[", "//[::1", "http://127.0.0.1:x/"])
def test_a_redirect_to_no_address_is_refused(location: str) -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.head(307, Location=location, Content_Length="0")

    with scripted(answer) as server:
        failure = failure_of(lambda: get(server.url))
    assert failure.kind == "refused"
    assert "redirects to an address that is none" in str(failure)


def test_an_address_that_cannot_be_asked_is_not_repeated() -> None:
    failure = failure_of(lambda: get("http://me:hunter2@a..\u200db"))
    assert failure.kind == "refused"
    assert "hunter2" not in str(failure)


def test_redirects_in_a_circle_are_a_failure() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.head(307, Location="/shop/prompt", Content_Length="0")
        reply.keep_open = True

    with scripted(answer) as server:
        failure = failure_of(lambda: get(server.url))
        assert failure.kind == "refused"
        assert len(server.requests) < 10


def test_a_password_in_a_redirect_is_not_repeated() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.head(307, Location="http://someone:hunter2@elsewhere.example/", Content_Length="0")

    with scripted(answer) as server:
        assert "hunter2" not in str(failure_of(lambda: get(server.url)))


def test_an_unread_stream_leaves_no_connection_behind() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        await reply.stream(("task_id", "t1"), ("error", "no"))

    async def ask(wire: Wire) -> int:
        for _ in range(3):
            with pytest.raises(EnvironmentFailure):
                await wire.call("/shop/call", "s1", BODY)
        connector = wire._client.connector
        assert isinstance(connector, aiohttp.TCPConnector)
        return len(connector._acquired)

    with scripted(answer) as server:
        assert on_wire(server.url, ask) == 0


def test_the_request_that_is_idempotent_survives_a_connection_closed_while_idle() -> None:
    async def answer(request: Request, reply: Reply) -> None:
        if len(server.requests) == 2:
            reply.reset()
        else:
            await reply.json({"n": len(server.requests)})

    async def ask(wire: Wire) -> Any:
        await wire.request("POST", "/ping", sid="s1")
        return await wire.request("POST", "/delete", sid="s1", repeatable=True)

    with scripted(answer) as server:
        assert on_wire(server.url, ask) == {"n": 3}
