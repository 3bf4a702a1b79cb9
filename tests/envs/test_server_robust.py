"""What a server does with requests that no decent client sends: a 4xx in JSON, no traceback, and on it goes."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.envs.trial import TrialServer, score, tool_call, trial_server, until

pytestmark = pytest.mark.slow

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[TrialServer]:
    with trial_server(ENV_REQUEST_SECONDS="1") as running:
        yield running


@pytest.fixture(autouse=True)
def the_server_goes_on(server: TrialServer) -> Iterator[None]:
    yield
    assert server.process.poll() is None
    assert httpx.get(f"{server.url}/list_environments", trust_env=False).json() == ["trial"]


def assert_refused(response: httpx.Response, status: int | None = None) -> None:
    assert 400 <= response.status_code < 500 if status is None else response.status_code == status, response.text
    assert response.json()["detail"]
    assert "Traceback" not in response.text


DEEP = b"[" * 20_000 + b"]" * 20_000
BODIES = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"split": "\xff\xfe"}',
    "null": b"null",
    "a list": b"[]",
    "a number": b"12345678901234567890" * 100,
    "wrong types": b'{"split": 7, "index": "x"}',
    "unknown fields": b'{"split": "train", "index": 0, "surprise": 1}',
    "NaN": b'{"split": NaN, "index": Infinity}',
    "half a surrogate pair": b'{"split": "\\ud800", "\\udfff": 1}',
    "deep": DEEP,
    "deep enough to parse": b'{"split": ' + b"[" * 600 + b"]" * 600 + b"}",
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize(
    "path", ["/create", "/trial/call", "/trial/task", "/trial/task_range", "/trial/num_tasks", "/trial/score_group"]
)
def test_a_body_that_makes_no_sense(server: TrialServer, path: str, body: bytes) -> None:
    headers = {**JSON, "X-Session-ID": "nobody"}
    assert_refused(httpx.post(server.url + path, content=body, headers=headers, trust_env=False))


@pytest.mark.parametrize("path", ["/create", "/trial/call"])
def test_ten_megabytes(server: TrialServer, path: str) -> None:
    body = json.dumps({"name": "say", "input": {"text": "x" * 10_000_000}}).encode()
    client = server.client("nobody")
    assert_refused(client.post(path, content=body, headers=JSON), 413)
    assert_refused(client.post(path, content=(body[at : at + 2**20] for at in range(0, len(body), 2**20))), 413)


@pytest.mark.parametrize("path", ["/trial/prompt", "/trial/task_tools", "/trial/messages"])
def test_an_unknown_session(server: TrialServer, path: str) -> None:
    assert_refused(server.client("nobody").get(path), 404)
    assert_refused(server.client().get(path), 400)


@pytest.mark.parametrize("name", ["X-Session-ID", "X-User-ID", "X-Organisation-ID"])
def test_headers_that_are_not_utf8(server: TrialServer, name: str) -> None:
    assert_refused(server.client().get("/trial/prompt", headers=[(name.encode(), b"\xff\xfe")]), 400)


@pytest.mark.parametrize(
    "secrets",
    [
        "not base64!",
        "%%%",
        base64.b64encode(b"not JSON").decode(),
        base64.b64encode(b"\xff\xfe").decode(),
        base64.b64encode(b"[1]").decode(),
        base64.b64encode(b'{"KEY": "no object"}').decode(),
        base64.b64encode(b'{"KEY": {"no": "value"}}').decode(),
        base64.b64encode(DEEP).decode(),
    ],
)
def test_secrets_that_cannot_be_read(server: TrialServer, secrets: str) -> None:
    response = server.client("nobody", **{"X-Secrets": secrets}).post("/create", json={"task_spec": {"target": "a"}})
    assert_refused(response, 400)
    assert "X-Secrets" in response.json()["detail"]
    assert server.metric("ors_sessions_open") == 0


@pytest.mark.parametrize("spec", [{}, {"target": float("nan")}, {"nothing": "\ud800"}, {"a": [[[[]]]]}])
def test_a_task_that_the_environment_rejects(server: TrialServer, spec: dict[str, object]) -> None:
    client = server.client("nobody")
    response = client.post("/create", content=json.dumps({"task_spec": spec}), headers=JSON)
    if "target" in spec:
        assert response.status_code == 200
        client.post("/delete")
    else:
        assert_refused(response, 400)
        assert "KeyError: 'target'" in response.json()["detail"]


def test_a_rejected_task_is_one_line_of_the_log_and_a_task_of_its_own_that_fails_a_traceback() -> None:
    with trial_server() as server:
        client = server.client("nobody")
        before = server.log()
        assert client.post("/create", json={"task_spec": {"x\r\n" * 1000: 1}}).status_code == 400
        assert client.post("/create", json={"env_name": "x" * 5000, "task_spec": {}}).status_code == 404
        lines = server.log().removeprefix(before).splitlines()
        assert ["level=warning event=request_rejected" in line and len(line) < 1000 for line in lines] == [True, True]
        assert "trial rejected the task_spec at trial.py:" in lines[0]
        assert "KeyError: 'target'" in lines[0]
    with trial_server(TRIAL_TASKS="unreadable") as server:
        response = server.client("nobody").post("/create", json={"split": "train", "index": 0})
        assert (response.status_code, response.json()) == (500, {"detail": "KeyError: 'target'"})
        assert "Traceback" in server.log()
    with trial_server(ENV_LOG_LEVEL="debug") as server:
        server.client("nobody").post("/create", json={"task_spec": {}})
        assert "Traceback" in server.log()


def test_a_refusal_is_a_short_line_of_the_log_with_what_is_needed_to_find_its_client() -> None:
    with trial_server() as server:
        before = server.log()
        client = server.client("0a1b")
        assert client.post("/create", json={"env_name": "chess", "task_spec": {}}).status_code == 404
        assert client.post("/trial/tasks", json={"split": 5}).status_code == 422
        assert server.client().post("/trial/tasks", json={"split": "none"}).status_code == 400
        lines = [line.partition(" ")[2] for line in server.log().removeprefix(before).splitlines()]
    start = "level=warning event=request_rejected method=POST path="
    assert lines == [
        f"{start}/create status=404 detail=\"unknown environment 'chess'\" session_id=0a1b",
        f'{start}/trial/tasks status=422 detail="body.split: string_type" session_id=0a1b',
        f'{start}/trial/tasks status=400 detail="Invalid split"',
    ]


def test_what_a_model_sends_makes_no_long_line() -> None:
    with trial_server() as server:
        session = server.open("wordy")
        before = server.log()
        tool_call(session, "crash", text=["x" * 5000])
        tool_call(session, "y" * 5000)
        lines = server.log().removeprefix(before).splitlines()
    assert ["event=tool_input_validation_error" in lines[0], "event=tool_not_found" in lines[1]] == [True, True], lines
    assert (len(lines), max(map(len, lines)) < 600) == (2, True)


def test_what_a_tool_raises_is_told_without_its_traceback(server: TrialServer) -> None:
    client = server.open("crash")
    assert tool_call(client, "crash", text="the disk is full")["error"] == "the disk is full"
    assert "the disk is full" in server.log()
    assert "Traceback" in server.log()
    client.post("/delete")


def test_a_failed_setup_is_told_to_every_request_and_its_traceback_to_the_log_once() -> None:
    with trial_server() as server:
        client = server.open("broken", {"target": "broken setup"})
        told = (500, {"detail": "ValueError: cannot set up with {}"})
        call = {"name": "say", "input": {"text": "x" * 10_000}}
        grown = []
        for _ in range(4):
            before = len(server.log())
            for answer in (client.get("/trial/prompt"), client.post("/trial/call", json=call)):
                assert (answer.status_code, answer.json()) == told
            grown.append(len(server.log()) - before)
        assert client.get("/trial/task_tools").json() == told[1]
        assert server.log().count("Traceback") == 1
        assert max(grown[1:]) < 1000, grown
        client.post("/delete").raise_for_status()
        assert client.get("/trial/prompt").status_code == 404
    with trial_server(ENV_SHOW_ERRORS="false") as server:
        client = server.open("broken", {"target": "broken setup"})
        assert client.get("/trial/prompt").json() == {"detail": "Internal Server Error"}


def test_a_bad_body_is_one_line_of_the_log_and_a_crash_a_traceback() -> None:
    with trial_server() as server:
        session = server.open("crash")
        before = server.log()
        for body in BODIES.values():
            session.post("/trial/task", content=body, headers=JSON)
        session.post("/trial/task", json={"split": "train", "index": 0, "x\r\n" * 1000: 1})
        session.post("/trial/task", json={"split": ["private"]})
        lines = server.log().removeprefix(before).splitlines()
        assert 'detail="body.split: string_type; body.index: missing"' in lines[-1]
        assert len(lines) == len(BODIES) + 2
        assert max(map(len, lines)) < 1000
        assert all("level=warning event=request_rejected" in line and "private" not in line for line in lines)
        tool_call(session, "crash", text="the disk is full")
        assert "Traceback" in server.log()


def test_a_log_of_errors_only_has_no_bad_bodies() -> None:
    with trial_server(ENV_LOG_LEVEL="error") as server:
        assert_refused(server.client().post("/trial/task", json=[]), 422)
        assert server.log() == ""


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("broken score", "no scores from 'broken score'"),
        ("score that gives up", "the environment's code cancelled itself"),
        ("score that cancels itself", "the environment's code cancelled itself"),
    ],
)
def test_a_score_that_fails_is_told_and_logged(server: TrialServer, target: str, told: str) -> None:
    client = server.open("odd", {"target": target})
    assert score(client)["error"] == told
    assert told in server.log()
    client.post("/delete")


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("leave", {}, "the tool raised SystemExit: 3"),
        ("give_up", {}, "the tool raised CancelledError: "),
        ("cancel", {"seconds": 30}, "the tool raised CancelledError: "),
        ("cancel", {"seconds": 0}, "the tool raised CancelledError: "),
        ("crash", {"text": ""}, "RuntimeError"),
        ("crash", {"text": "\ud800 of a pair"}, "\\ud800 of a pair"),
        ("crash", {"text": "two\nlines"}, "two\nlines"),
    ],
)
def test_a_tool_cannot_end_the_server_or_leave_its_client_waiting(
    server: TrialServer, tool: str, arguments: dict[str, str], told: str
) -> None:
    client = server.open("odd")
    body = json.dumps({"name": tool, "input": arguments})
    stream = client.post("/trial/call", content=body, headers=JSON).text
    assert [line for line in stream.splitlines() if line.startswith(("event: error", "data: "))][1:] == [
        "event: error",
        *(f"data: {line}" for line in told.split("\n")),
    ]
    client.post("/delete")


def test_a_setup_that_cancels_its_task_has_failed(server: TrialServer) -> None:
    client = server.open("odd", {"target": "setup that cancels itself"})
    for answer in (client.get("/trial/prompt"), client.post("/trial/call", json={"name": "say", "input": {}})):
        assert answer.status_code == 500
        assert answer.json() == {"detail": "RuntimeError: the environment's code cancelled itself"}
    client.post("/delete")


def test_what_a_tool_says_that_json_cannot_is_an_error_not_half_an_answer(server: TrialServer) -> None:
    client = server.open("half")
    stream = client.post("/trial/call", content=b'{"name": "say", "input": {"text": "\\ud800"}}', headers=JSON).text
    assert "event: error" in stream or '"reason":"input_validation"' in stream
    client.post("/delete")


# From here on by hand, byte by byte, which no HTTP client lets one do.


def connect(server: TrialServer) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=30)
    connection.settimeout(30)
    return connection


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def ask(server: TrialServer, request: bytes) -> tuple[int, bytes]:
    """Send bytes and return the status and the body of the answer; the server closes the connection."""
    with connect(server) as connection:
        connection.sendall(request)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"hello\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /create HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /create HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /create HTTP/1.1\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /create HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nName\x00: x\r\n\r\n",
    ],
)
def test_what_is_no_http_request(server: TrialServer, request_bytes: bytes) -> None:
    status, body = ask(server, request_bytes)
    assert status == 400
    assert json.loads(body) == {"detail": "This is not a valid HTTP request."}


@pytest.mark.parametrize(
    "headers",
    [
        b"X-Flood: " + b"x" * 70_000 + b"\r\n",
        b"".join(b"X-Flood-%d: x\r\n" % number for number in range(10_000)),
    ],
    ids=["one long", "many short"],
)
@pytest.mark.parametrize("ended", [True, False])
def test_a_flood_of_headers(server: TrialServer, headers: bytes, ended: bool) -> None:
    status, body = ask(server, b"GET /health HTTP/1.1\r\nHost: a\r\n" + headers + (b"\r\n" if ended else b""))
    assert status == 431
    assert json.loads(body) == {"detail": "The request's line and headers are too long."}


def test_an_endless_request_line(server: TrialServer) -> None:
    assert ask(server, b"GET /" + b"x" * 70_000)[0] == 431


def test_headers_just_below_the_limit_are_read(server: TrialServer) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Much: " + b"x" * 60_000 + b"\r\n\r\n"
    assert ask(server, request) == (200, b'{"status":"ok"}')


SLOW = {
    "nothing": b"",
    "headers": b"GET /health HTTP/1.1\r\nHost: a\r\n",
    "body": b'POST /trial/num_tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n{"',
    "chunked body": b"POST /trial/num_tasks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
}


@pytest.mark.parametrize("start", SLOW.values(), ids=SLOW.keys())
def test_a_client_that_stops_in_the_middle(server: TrialServer, start: bytes) -> None:
    status, body = ask(server, start)
    assert status == 408
    assert json.loads(body) == {"detail": "The request did not arrive in time."}


def test_a_client_that_drips_is_cut_off_as_if_it_had_stopped(server: TrialServer) -> None:
    started = time.monotonic()
    with connect(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n")
        connection.setblocking(False)
        received = b""

        def answered() -> bool:
            nonlocal received
            try:
                connection.sendall(b"X")
                received += connection.recv(65536)
            except BlockingIOError:
                pass
            except OSError:
                return True
            return b"\r\n\r\n" in received

        until(answered, "the slow client is told to go")
    assert b" 408 " in received
    assert time.monotonic() - started > 0.9, "it had its time"


def test_many_slow_clients_keep_nobody_waiting(server: TrialServer) -> None:
    connections = [connect(server) for _ in range(300)]
    try:
        for connection in connections:
            connection.sendall(b"POST /trial/num_tasks HTTP/1.1\r\nHost: a\r\nContent-Le")
        assert server.client().post("/trial/num_tasks", json={"split": "train"}).json() == {"num_tasks": 2}
        until(lambda: b" 408 " in connections[-1].recv(65536), "the last one is told to go")
    finally:
        for connection in connections:
            connection.close()


def test_a_client_that_goes_on_sending_after_its_answer_gets_no_second_one(server: TrialServer) -> None:
    with connect(server) as connection:
        connection.sendall(b"POST /create HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\nx")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 413")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_client_that_leaves_in_the_middle_is_no_event(server: TrialServer) -> None:
    before = server.log()
    for start in SLOW.values():
        with connect(server) as connection:
            connection.sendall(start)
    with connect(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    assert server.client().get("/health").status_code == 200
    assert server.log() == before


def test_requests_sent_all_at_once_are_answered_one_by_one(server: TrialServer) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" * 49)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert read_all(connection).count(b'{"status":"ok"}') == 50


def test_an_upgrade_that_is_not_offered_is_ignored(server: TrialServer) -> None:
    request = (
        b"GET /health HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
        b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    with connect(server) as connection:
        connection.sendall(request)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
