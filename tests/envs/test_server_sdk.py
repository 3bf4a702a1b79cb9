"""The private parts of the SDK that `envs/server/` relies on: an upgrade that moves one of them fails here."""

from __future__ import annotations

import gc
import inspect
import re
import weakref
from importlib.metadata import version

import pytest
from fastapi import HTTPException
from openreward.environments import Environment, reconnect, server, session
from openreward.environments import environment as environment_module
from sse_starlette import EventSourceResponse

from envs.server import sdk
from tests.envs.trial import TrialEnvironment


@pytest.fixture(scope="module")
def source() -> str:
    return inspect.getsource(server.Server.__init__)


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("openreward") == "0.1.167", "read openreward/environments/ again, then change the version here"


def test_sessions_are_kept_where_they_are_looked_for() -> None:
    made = server.Server([TrialEnvironment])
    for name in ("_active_envs", "_active_toolsets", "_last_ping", "_setup_tasks", "_ready", "_setup_errors"):
        assert getattr(made, name) == {}, name
    assert made._reaper_task is None


def test_a_setups_failure_keeps_nothing_of_the_requests_that_are_told(source: str) -> None:
    made = server.Server([TrialEnvironment])
    sdk.Sessions(made, show_errors=True, ended=lambda sid: None)
    failures = made._setup_errors
    failures["one"] = LookupError("no sandbox")
    held: list[weakref.ref[object]] = []

    class Body:
        pass

    def request() -> None:
        body = Body()
        held.append(weakref.ref(body))
        if error := failures.get("one"):
            raise error

    for _ in range(3):
        with pytest.raises(HTTPException) as raised:
            request()
        assert (raised.value.status_code, raised.value.detail) == (500, "LookupError: no sandbox")
        del raised
    gc.collect()
    assert [reference() for reference in held] == [None] * 3
    failures["two"] = HTTPException(410, "Session deleted", {"a": "b"})
    assert vars(failures.get("two")) == {"status_code": 410, "detail": "Session deleted", "headers": {"a": "b"}}
    assert failures.get("three") is None
    assert source.count("_setup_errors.get(sid") == 3
    assert source.count("_setup_errors[sid] = e\n") == 1


def test_sessions_are_deleted_by_the_name_that_is_replaced(source: str) -> None:
    assert len(re.findall(r"_delete_session\(\s+sid,", source)) == 3


def test_deleting_a_session_takes_its_dictionaries() -> None:
    assert list(inspect.signature(sdk.delete_session).parameters) == [
        "sid",
        "active_envs",
        "active_toolsets",
        "last_ping",
        "setup_tasks",
        "ready",
        "setup_errors",
    ]


def test_the_session_id_is_read_as_the_gate_reads_it() -> None:
    read = inspect.getsource(server.extract_sid)
    assert 'request.headers.get("X-Session-ID")' in read
    assert "return x_session_id.strip()" in read


def test_calls_go_through_the_name_that_is_replaced(source: str) -> None:
    assert server.call_session_tool is session.call_session_tool or server.call_session_tool.__module__ == "envs"
    assert list(inspect.signature(session.call_session_tool).parameters) == ["env", "toolset", "name", "input"]
    assert source.count("await call_session_tool(env, toolset, tool_call.name, tool_call.input)") == 1


def test_the_environments_code_goes_through_the_name_that_is_replaced(source: str) -> None:
    for code in ("env.setup", "env_cls, task_spec=task_spec, secrets=secrets"):
        assert f"await run_user_callable({code})" in source, code
    for name in sdk._ASKED_FOR:
        assert (
            f"await run_user_callable(env.{name}" in source + inspect.getsource(session)
            or f"await run_user_callable(env_cls.{name}" in source
        ), name
    assert source.count("run_user_callable(") == len(sdk._ASKED_FOR) + 2
    assert "await run_user_callable(env.teardown)" in inspect.getsource(sdk.delete_session)
    assert [inspect.getsource(method).count("pass") for method in (Environment.setup, Environment.teardown)] == [1, 1]


def test_a_task_that_the_environment_gave_itself_reaches_its_constructor_as_it_is(source: str) -> None:
    given = "task_spec = await run_user_callable(env_cls.get_task, create_session.split, create_session.index)"
    between = source.partition(given)[2].partition("env = await run_user_callable(env_cls, task_spec=task_spec,")
    assert between[1]
    assert "task_spec" not in between[0]


def test_only_what_a_client_waits_for_is_asked_for() -> None:
    environment = TrialEnvironment({"target": "a"})
    assert sdk.asked_for(environment.get_prompt) == (environment, "get_prompt")
    assert sdk.asked_for(TrialEnvironment.list_tasks) == (TrialEnvironment, "list_tasks")
    assert [sdk.asked_for(code) for code in (TrialEnvironment, environment.setup, environment.teardown)] == [None] * 3


def test_a_streams_work_goes_through_the_name_that_is_replaced(source: str) -> None:
    assert source.count("sse_task_stream(\n                    lambda: ") == 2
    parameters = list(inspect.signature(reconnect.sse_task_stream).parameters)
    assert parameters == ["task_factory", "request", "task_id"], "compare reconnect.py with envs/server/results.py"


def test_streams_are_made_by_the_name_that_is_replaced(source: str) -> None:
    assert source.count("EventSourceResponse(") == 3
    assert version("sse-starlette") == "2.3.6", "compare sse_starlette/sse.py with envs/server/stream.py"
    used = ("_ping_interval", "_send_lock", "active", "sep", "body_iterator", "raw_headers", "status_code")
    response = EventSourceResponse(iter(()))
    assert [name for name in used if not hasattr(response, name)] == []


def test_a_tools_signature_is_looked_at_by_the_name_that_is_replaced() -> None:
    for function in (Environment._is_tool, Environment._run_tool_fn):
        assert "_introspect_tool(fn)" in inspect.getsource(function)
        assert "_, hints, params = _introspect_tool(fn)" in inspect.getsource(function), (
            "the function itself is not used"
        )


def test_no_two_routes_match_one_path() -> None:
    paths = [route.path for route in server.Server([TrialEnvironment]).app.routes]
    for path in ("/{env_name}/call", "/ping", "/create", "/{env_name}/prompt", "/delete"):
        assert paths.count(path) == 1
    one_segment = [path for path in paths if path.count("/") == 1]
    assert not any("{" in path for path in one_segment)
    two_segments = [path for path in paths if path.count("/") == 2 and path.startswith("/{env_name}/")]
    assert len(set(two_segments)) == len(two_segments)


def test_every_module_that_logs_is_given_the_servers_logger() -> None:
    for module in (server, environment_module, session):
        assert "logger = _get_logger(" in inspect.getsource(module), module.__name__


def test_helpers_are_there() -> None:
    assert server._convert_to_split("train").name == "train"
    assert list(inspect.signature(server._parse_secrets_header).parameters) == ["request"]
    assert callable(TrialEnvironment._list_splits_cached)
