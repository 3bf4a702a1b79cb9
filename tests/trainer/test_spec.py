"""OpenRewardSpec against real servers: what it makes of an environment, and what it says where it cannot."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

from tests.servers import ROOT, free_port, variables
from tests.trainer.conftest import record, until
from tests.trainer.scripted_server import Protocol, Reply, Request, scripted
from trainer import OpenRewardSpec
from trainer.ors import discovery
from trainer.ors.errors import ConfigurationError, EnvironmentFailure

PASSWORD, KEY, SECRET = "hunter2-password", "key-0123456789", "secret-0123456789"


def requests(url: str, *names: str) -> list[dict[str, Any]]:
    """What the server was asked, all of it or the paths that end so."""
    return [r for r in record(url)["requests"] if not names or r["path"].rsplit("/", 1)[-1] in names]


def rows(spec: OpenRewardSpec) -> list[dict[str, Any]]:
    return list(spec.train_dataset.to_list())


def message_of(kind: type[Exception], ask: Any) -> str:
    with pytest.raises(kind) as caught:
        ask()
    return str(caught.value)


# ── construction ───────────────────────────────────────────────────


def test_constructing_reaches_nothing_and_imports_nothing_heavy() -> None:
    program = (
        "import sys, socket\n"
        "def no(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = no; socket.getaddrinfo = no\n"
        "from trainer import OpenRewardSpec\n"
        "spec = OpenRewardSpec('https://nobody.example', env_name='x', secrets={'a': 'b'}, num_tasks=3)\n"
        "spec.reward_funcs, repr(spec)\n"
        "OpenRewardSpec('owner/name')\n"
        "heavy = {'openreward', 'torch', 'datasets', 'transformers', 'trl', 'aiohttp', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=variables(0), check=True)


@pytest.mark.parametrize("block", ["sys.modules['openreward'] = None", "sys.meta_path.insert(0, No())"])
def test_without_the_openreward_package_the_first_use_says_what_to_install(block: str) -> None:
    program = (
        "import sys\n"
        "class No:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'openreward': raise ImportError('blocked')\n"
        f"{block}\n"
        "from trainer import OpenRewardSpec\n"
        "spec = OpenRewardSpec('http://127.0.0.1:1')\n"
        "for use in ('train_dataset', 'environment_factory'):\n"
        "    try: getattr(spec, use)\n"
        '    except ImportError as error: assert "pip install \'openreward" in str(error), error\n'
        "    else: raise AssertionError(use)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=variables(0), check=True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_tasks": 2, "indices": [0]}, "num_tasks or indices, not both"),
        ({"num_tasks": 0}, "at least 1"),
        ({"num_tasks": -3}, "at least 1"),
        ({"num_tasks": 2.5}, "whole number"),
        ({"indices": []}, "indices is empty"),
        ({"indices": ["one"]}, "whole numbers"),
        ({"open_timeout": 0}, "above 0"),
        ({"call_timeout": float("nan")}, "above 0"),
        ({"max_concurrency": 0}, "at least 1"),
        ({"reward": "median"}, "there is no reward 'median'"),
        ({"unfinished_reward": float("nan")}, "finite"),
        ({"unfinished_reward": 1e39}, "finite number that single precision holds"),
        ({"headers": {"X-Tenant": "a\r\nX-Other: b"}}, "'X-Tenant' cannot be sent"),
        ({"headers": {"bad name": "a"}}, "'bad name' cannot be sent"),
        ({"hf_token": "hf_a\x00b"}, "'Authorization' cannot be sent"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings: dict[str, Any], said: str) -> None:
    message = message_of(ValueError, lambda: OpenRewardSpec("http://127.0.0.1:1", **settings))
    assert said in message
    assert "hf_a" not in message


@pytest.mark.parametrize(
    "target",
    [
        "",
        "ftp://host/x",
        "http://",
        "http://host:notaport",
        "http://host:99999",
        f"htp://user:{PASSWORD}@host",
        "http://a b",
    ],
)
def test_a_target_that_is_none_is_refused_at_once(target: str) -> None:
    assert PASSWORD not in message_of(ConfigurationError, lambda: OpenRewardSpec(target))


# ── tasks ──────────────────────────────────────────────────────────


def test_a_server_made_by_hand_gives_one_row_a_task_with_its_index_and_target(workshop: str) -> None:
    assert rows(OpenRewardSpec(workshop, num_tasks=2)) == [
        {
            "prompt": [{"role": "user", "content": ""}],
            "task_index": index,
            "split": "train",
            "environment": "workshop",
            "target": target,
        }
        for index, target in enumerate(["alpha", "beta"])
    ]


def test_what_is_fetched_once_is_kept(workshop: str) -> None:
    spec = OpenRewardSpec(workshop)
    assert spec.train_dataset is spec.train_dataset
    assert spec.environment_factory is spec.environment_factory
    assert len(requests(workshop, "num_tasks")) == 1


@pytest.mark.parametrize(("count", "most"), [(64, 6), (1024, 12)])
def test_tasks_are_fetched_in_few_requests_and_only_those_asked_for(workshop: str, count: int, most: int) -> None:
    dataset = OpenRewardSpec(workshop, split="many", num_tasks=count).train_dataset
    assert dataset["task_index"][:] == dataset["n"][:] == list(range(count))
    assert len(requests(workshop)) <= most
    assert not requests(workshop, "tasks")


def test_more_tasks_asked_for_than_there_are_gives_all(workshop: str) -> None:
    assert len(rows(OpenRewardSpec(workshop, num_tasks=1000))) == 3
    assert len(rows(OpenRewardSpec(workshop, split="many"))) == 1100


def test_indices_keep_their_order_and_repetitions(workshop: str) -> None:
    dataset = OpenRewardSpec(workshop, split="many", indices=[7, 3, 7, 900, 4, 5]).train_dataset
    assert dataset["n"][:] == dataset["task_index"][:] == [7, 3, 7, 900, 4, 5]
    assert len(requests(workshop, "task", "task_range")) == 3


@pytest.mark.parametrize(("indices", "said"), [([1, 3], "tasks 0 to 2, not 3"), ([-1], "not -1"), ([5, 6], "1 more")])
def test_indices_out_of_range_are_refused(workshop: str, indices: list[int], said: str) -> None:
    spec = OpenRewardSpec(workshop, indices=indices)
    assert said in message_of(ConfigurationError, lambda: spec.train_dataset)


def test_an_empty_split_is_an_error(workshop: str) -> None:
    said = message_of(ConfigurationError, lambda: OpenRewardSpec(workshop, split="nothing").train_dataset)
    assert "'nothing' has no tasks" in said


def test_an_unknown_split_lists_those_that_exist(workshop: str) -> None:
    said = message_of(ConfigurationError, lambda: OpenRewardSpec(workshop, split="trian").train_dataset)
    assert "'trian'" in said
    assert "train, test, many" in said


def test_metadata_can_be_left_out(workshop: str) -> None:
    assert "target" not in rows(OpenRewardSpec(workshop, include_metadata=False))[0]


def test_metadata_never_takes_the_place_of_a_column_that_means_something() -> None:
    protocol = Protocol()
    names = ["prompt", "task_index", "split", "environment", "completions", "environments", "log_metric", "self"]
    protocol.tasks["train"] = [{name: f"field {name}" for name in [*names, "task_prompt"]}]
    with scripted(protocol) as server:
        [row] = rows(OpenRewardSpec(server.url))
    assert row["prompt"] == [{"role": "user", "content": ""}]
    assert (row["task_index"], row["split"], row["environment"]) == (0, "train", "shop")
    assert row["task_prompt"] == "field task_prompt"
    assert row["task_task_prompt"] == "field prompt"
    assert row["task_completions"] == "field completions"
    assert row["self"] == "field self"
    assert not {"completions", "environments", "log_metric"} & set(row)


@pytest.mark.parametrize("tasks", [[None, "text"], [7, {"a": 1}], [[1], [2]]])
def test_tasks_that_are_no_objects_are_kept_as_well_as_may_be(tasks: list[Any]) -> None:
    protocol = Protocol()
    protocol.tasks["train"] = tasks
    with scripted(protocol) as server:
        assert [row["task_index"] for row in rows(OpenRewardSpec(server.url))] == [0, 1]


@pytest.mark.parametrize(
    "missing",
    [
        ("list_environments",),
        ("num_tasks",),
        ("task_range",),
        ("num_tasks", "task_range", "list_environments", "task_tools"),
        ("num_tasks", "task_range", "task"),
    ],
)
def test_servers_from_before_a_request_existed_work(missing: tuple[str, ...]) -> None:
    protocol = Protocol(**dict.fromkeys(missing))
    with scripted(protocol) as server:
        spec = OpenRewardSpec(server.url, env_name="shop")
        assert [row["target"] for row in rows(spec)] == ["a", "b"]
        rollout = spec.environment_factory()
        assert rollout.reset(task_index=1) == "train 1"
        assert rollout.add(n=1) == "ok"


def test_a_single_task_out_of_many_is_one_request() -> None:
    with scripted(Protocol()) as server:
        assert [row["target"] for row in rows(OpenRewardSpec(server.url, indices=[1]))] == ["b"]
        assert (server.count("/shop/task"), server.count("/shop/tasks"), server.count("/shop/task_range")) == (1, 0, 0)


@pytest.mark.parametrize("answer", [None, [], {"num_tasks": None}, {"num_tasks": "many"}, {"wrong": 1}])
def test_a_count_outside_the_standard_is_said_clearly(answer: Any) -> None:
    async def count(request: Request, reply: Reply) -> None:
        await reply.json(answer)

    with scripted(Protocol(num_tasks=count)) as server:
        spec = OpenRewardSpec(server.url)
        assert "not the standard's" in message_of(EnvironmentFailure, lambda: spec.train_dataset)


@pytest.mark.parametrize("answer", [None, [], {"tools": None}, {"tools": ["add"]}, {"tools": [{"title": "add"}]}])
def test_tools_outside_the_standard_are_said_clearly(answer: Any) -> None:
    async def tools(request: Request, reply: Reply) -> None:
        await reply.json(answer)

    with scripted(Protocol(task_tools=tools, tools=tools)) as server:
        spec = OpenRewardSpec(server.url)
        assert "not the standard's" in message_of(EnvironmentFailure, lambda: spec.environment_factory)


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    spec = OpenRewardSpec(f"http://127.0.0.1:{free_port()}")
    assert "no connection" in message_of(EnvironmentFailure, lambda: spec.train_dataset)


def test_a_server_that_is_starting_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def splits(request: Request, reply: Reply) -> None:
        if server.count("/shop/splits") < 3:
            await reply.json({"detail": "starting"}, 503, X_Backend_State="starting", Retry_After="0")
        else:
            await protocol._splits(request, reply)

    protocol = Protocol(splits=splits)
    with scripted(protocol) as server:
        monkeypatch.setattr(discovery, "PAUSE", 0.05)
        assert len(rows(OpenRewardSpec(server.url))) == 2


# ── tools ──────────────────────────────────────────────────────────


def test_tools_that_depend_on_the_task_are_gathered_from_the_tasks_asked_for() -> None:
    async def tools(request: Request, reply: Reply) -> None:
        index = protocol.sessions[request.headers["x-session-id"]]["index"]
        await reply.json({"tools": [{"name": f"tool_{index}", "description": "", "input_schema": None}]})

    protocol = Protocol(task_tools=tools)
    with scripted(protocol) as server:

        def tools_of(**settings: Any) -> set[str]:
            return {tool.name for tool in OpenRewardSpec(server.url, **settings).environment_factory.plan.tools}

        assert tools_of(indices=[1, 0, 1]) == {"tool_0", "tool_1"}
        assert tools_of(num_tasks=2) == {"tool_0"}
        assert tools_of(task_tools_discovery_index=1) == {"tool_1"}
        assert tools_of(discover_task_tools=False) == {"add"}
        until(lambda: len(protocol.deleted) == len(protocol.sessions) == 4)


def test_of_many_tasks_a_few_are_asked_for_their_tools_and_nothing_else() -> None:
    protocol = Protocol()
    protocol.tasks["train"] = [{"n": n} for n in range(64)]
    with scripted(protocol) as server:
        spec = OpenRewardSpec(server.url, indices=list(reversed(range(64))))
        assert {tool.name for tool in spec.environment_factory.plan.tools} == {"add"}
        asked = [session["index"] for session in protocol.sessions.values()]
        assert len(asked) == len(set(asked)) == 8
        assert {0, 63} <= set(asked)
        until(lambda: len(protocol.deleted) == 8)
        assert server.count("/shop/prompt") == 0
        assert len(server.requests) == 1 + 4 * 8


def test_tools_are_learned_without_waiting_for_the_tasks_setup(workshop: str) -> None:
    assert OpenRewardSpec(workshop, split="endless").environment_factory.plan.tools
    until(lambda: record(workshop)["open"] == 0)


def test_a_session_that_is_starting_is_asked_again_for_its_tools() -> None:
    async def tools(request: Request, reply: Reply) -> None:
        if server.count("/shop/task_tools") == 1:
            await reply.json({"detail": "starting"}, 503, X_Backend_State="starting", Retry_After="0")
        else:
            await protocol._tools(request, reply)

    protocol = Protocol(task_tools=tools, tools=None)
    with scripted(protocol) as server:
        assert {tool.name for tool in OpenRewardSpec(server.url).environment_factory.plan.tools} == {"add"}


def test_where_no_task_tells_its_tools_the_common_ones_are_taken_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def tools(request: Request, reply: Reply) -> None:
        await reply.json({"detail": "no room today"}, 500)

    with scripted(Protocol(task_tools=tools)) as server, caplog.at_level(logging.WARNING):
        assert {tool.name for tool in OpenRewardSpec(server.url).environment_factory.plan.tools} == {"add"}
    assert "no room today" in caplog.text


def test_a_server_without_tools_is_refused() -> None:
    protocol = Protocol()
    protocol.tools = []
    with scripted(protocol) as server:
        spec = OpenRewardSpec(server.url)
        assert "offers no tools" in message_of(ConfigurationError, lambda: spec.environment_factory)


# ── which environment, which split ─────────────────────────────────


def test_env_name_chooses_among_the_environments_of_a_server(pair: str) -> None:
    spec = OpenRewardSpec(pair, env_name="second-shop")
    assert [row["second"] for row in rows(spec)] == [True, False]
    rollout = spec.environment_factory()
    assert rollout.reset(task_index=0) == "second"
    assert (rollout.two(), rollout.reward) == ("two", 2.0)


@pytest.mark.parametrize("spelling", ["FirstShop", "first_shop", "firstshop", "first-shop", "FIRST SHOP"])
def test_env_name_is_found_in_other_spellings(pair: str, spelling: str) -> None:
    assert OpenRewardSpec(pair, env_name=spelling).name == "firstshop"


def test_an_unknown_env_name_lists_those_that_exist(pair: str) -> None:
    said = message_of(ConfigurationError, lambda: OpenRewardSpec(pair, env_name="third").train_dataset)
    assert "'third'" in said
    assert "firstshop, second-shop" in said


def test_without_env_name_the_first_is_taken_and_that_is_said_once(pair: str, caplog: pytest.LogCaptureFixture) -> None:
    discovery._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert [row["first"] for row in rows(OpenRewardSpec(pair))] == [True]
        assert [row["first"] for row in rows(OpenRewardSpec(pair, keepalive=1.0))] == [True]
    assert caplog.text.count("choose with env_name=") == 1
    assert "firstshop, second-shop" in caplog.text


def test_the_split_travels_with_the_row(workshop: str) -> None:
    trained = OpenRewardSpec(workshop)
    tested = OpenRewardSpec(workshop, split="test")
    rollout = trained.environment_factory()
    assert [rollout.reset(**row) for row in rows(tested)] == ["Make omega.", "Make psi."]
    assert rollout.reset(**rows(trained)[0]) == "Make alpha."


# ── addresses ──────────────────────────────────────────────────────


def test_two_servers_in_one_process_need_no_variable(workshop: str, pair: str) -> None:
    one, two = OpenRewardSpec(workshop), OpenRewardSpec(pair, env_name="second-shop")
    first, second = one.environment_factory(), two.environment_factory()
    assert (first.reset(task_index=0), second.reset(task_index=0)) == ("Make alpha.", "second")
    assert not [name for name in os.environ if name in ("OPENREWARD_API_URL", "OPENREWARD_SESSION_URL")]


def test_the_variables_of_the_sdk_are_honoured(
    workshop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    discovery._warn_once.cache_clear()
    monkeypatch.setenv("OPENREWARD_API_URL", workshop)
    monkeypatch.setenv("OPENREWARD_SESSION_URL", workshop)
    assert len(rows(OpenRewardSpec(workshop))) == 3
    assert caplog.text == ""
    assert len(rows(OpenRewardSpec("http://127.0.0.1:1"))) == 3
    assert "OPENREWARD_SESSION_URL is set" in caplog.text


def test_a_variable_that_is_no_url_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREWARD_SESSION_URL", "localhost:8080")
    spec = OpenRewardSpec("http://127.0.0.1:1")
    assert "OPENREWARD_SESSION_URL is no URL" in message_of(ConfigurationError, lambda: spec.train_dataset)


def test_a_url_with_a_path_is_taken_with_its_path() -> None:
    with scripted(Protocol()) as server:
        rollout = OpenRewardSpec(f"{server.url}/behind/a/proxy/").environment_factory()
        assert rollout.reset(task_index=0) == "train 0"
        assert all(request.path.startswith("/behind/a/proxy/") for request in server.requests)


def test_a_proxy_variable_that_would_swallow_a_local_url_is_named_once(
    workshop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    discovery._warn_once.cache_clear()
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    for _ in range(2):
        message_of(EnvironmentFailure, lambda: OpenRewardSpec(workshop).train_dataset)
    assert caplog.text.count("NO_PROXY") == 1
    assert "HTTP_PROXY is set" in caplog.text

    caplog.clear()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert len(rows(OpenRewardSpec(workshop))) == 3
    assert caplog.text == ""


# ── keys and secrets ───────────────────────────────────────────────


def play(spec: OpenRewardSpec) -> None:
    """Everything that is ever asked of a server."""
    row = rows(spec)[0]
    rollout = spec.environment_factory()
    rollout.reset(**row)
    rollout.say(text="a")
    rollout._close()


def test_the_platforms_key_never_reaches_a_server_of_ones_own(workshop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREWARD_API_KEY", KEY)
    play(OpenRewardSpec(workshop, secrets={"mine": SECRET}))
    asked = requests(workshop)
    assert len(asked) > 8
    assert KEY not in str(asked)
    assert not any("x-api-key" in request["headers"] for request in asked)


def test_a_key_that_was_given_is_sent_there_and_only_there(workshop: str, pair: str) -> None:
    record(pair, forget=True)
    play(OpenRewardSpec(workshop, api_key=f"{KEY}\n"))
    rows(OpenRewardSpec(pair, env_name="second-shop"))
    assert {request["headers"].get("x-api-key") for request in requests(workshop)} == {KEY}
    assert KEY not in str(requests(pair))


def test_what_is_given_for_a_url_goes_to_the_host_that_the_user_set_in_its_place(
    workshop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENREWARD_SESSION_URL", workshop)
    with scripted(Protocol()) as server:
        play(OpenRewardSpec(server.url, api_key=KEY, hf_token="hf_abc", secrets={"mine": SECRET}))
        assert server.requests == []
    asked = requests(workshop)
    sent = {(request["headers"].get("x-api-key"), request["headers"].get("authorization")) for request in asked}
    assert sent == {(KEY, "Bearer hf_abc")}
    assert all(SECRET in request["headers"]["x-secrets"] for request in asked if request["path"] == "/create")


def test_secrets_arrive_with_the_domains_they_may_go_to(workshop: str) -> None:
    play(
        OpenRewardSpec(
            workshop,
            secrets={"db": SECRET, "OPENAI_API_KEY": "o", "wide": ("w", ["a.example"]), "one": ("x", "b.example")},
        )
    )
    created = requests(workshop, "create")
    assert [json.loads(request["headers"]["x-secrets"]) for request in created] == [
        {
            "db": {"value": SECRET, "allowed_domains": ["127.0.0.1"]},
            "OPENAI_API_KEY": {"value": "o", "allowed_domains": ["api.openai.com"]},
            "wide": {"value": "w", "allowed_domains": ["a.example"]},
            "one": {"value": "x", "allowed_domains": ["b.example"]},
        }
    ] * len(created)
    assert not any("x-secrets" in request["headers"] for request in requests(workshop, "call", "delete", "splits"))


def test_headers_and_the_token_of_a_private_space_go_with_every_request(workshop: str) -> None:
    play(OpenRewardSpec(workshop, headers={"X-Tenant": "t1"}, hf_token="hf_abc\n"))
    asked = requests(workshop)
    assert {request["headers"].get("authorization") for request in asked} == {"Bearer hf_abc"}
    assert {request["headers"].get("x-tenant") for request in asked} == {"t1"}


def test_a_password_in_the_url_is_used_and_one_beside_a_token_is_refused() -> None:
    with scripted(Protocol()) as server:
        address = server.url.replace("//", f"//user:{PASSWORD}@")
        assert len(rows(OpenRewardSpec(address))) == 2
        assert all(request.headers["authorization"].startswith("Basic ") for request in server.requests)
        assert PASSWORD not in message_of(ConfigurationError, lambda: OpenRewardSpec(address, hf_token="hf_x"))


def test_nothing_that_is_shown_holds_a_key_a_secret_or_a_password() -> None:
    address = f"http://user:{PASSWORD}@127.0.0.1:{free_port()}"
    spec = OpenRewardSpec(
        address, api_key=KEY, secrets={"db": SECRET}, headers={"X-Own": SECRET}, hf_token=None, open_timeout=0.3
    )
    from trainer.ors.rewards import Reward
    from trainer.ors.rollout import Factory, Plan

    factory = Factory(Plan("shop", spec._endpoint, "train", (), Reward(), False))
    shown = [
        repr(spec),
        repr(factory),
        repr(pickle.loads(pickle.dumps(factory))),
        repr(factory()),
        repr(type(factory())),
    ]
    shown.append(message_of(EnvironmentFailure, lambda: spec.train_dataset))
    rollout = factory()
    shown += [rollout.reset(task_index=0), repr(rollout.failure)]
    for text in shown:
        assert not [word for word in (PASSWORD, KEY, SECRET) if word in text], text


# ── the catalog ────────────────────────────────────────────────────


def test_a_catalog_name_needs_a_key() -> None:
    said = message_of(ConfigurationError, lambda: OpenRewardSpec("owner/shop").train_dataset)
    assert "OPENREWARD_API_KEY" in said


@pytest.mark.parametrize("given", [True, False])
def test_a_catalog_name_goes_to_the_session_host_with_the_key(monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    with scripted(Protocol()) as server:
        monkeypatch.setenv("OPENREWARD_API_KEY", "from-the-environment" if given else KEY)
        monkeypatch.setenv("OPENREWARD_API_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("OPENREWARD_SESSION_URL", server.url)
        spec = OpenRewardSpec("owner/shop", api_key=KEY if given else None)
        assert [row["environment"] for row in rows(spec)] == ["owner/shop"] * 2
        rollout = spec.environment_factory()
        assert rollout.reset(task_index=1) == "train 1"
        rollout._close()
        assert {request.headers.get("x-api-key") for request in server.requests} == {KEY}
        assert {request.headers.get("x-deployment") for request in server.requests} == {"owner/shop"}
        assert server.count("/list_environments") == 0
        assert server.count("/splits") == 1


def test_the_variant_of_a_catalog_name_is_in_the_paths_and_the_deployment_is_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    protocol = Protocol()
    with scripted(protocol) as server:
        monkeypatch.setenv("OPENREWARD_API_KEY", KEY)
        monkeypatch.setenv("OPENREWARD_API_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("OPENREWARD_SESSION_URL", server.url)
        spec = OpenRewardSpec("owner/deployed", env_name="shop")
        assert [row["environment"] for row in rows(spec)] == ["owner/deployed"] * 2
        rollout = spec.environment_factory()
        assert (rollout.reset(task_index=1), rollout.add(n=1)) == ("train 1", "ok")
        rollout._close()
        until(lambda: server.count("/delete_session") == server.count("/create_session"))
        assert {request.headers.get("x-deployment") for request in server.requests} == {"owner/deployed"}
        assert (server.count("/shop/splits"), server.count("/shop/call")) == (1, 1)
        assert {session["env_name"] for session in protocol.sessions.values()} == {"shop"}


def test_a_secret_of_unknown_domains_is_refused_on_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREWARD_API_KEY", KEY)
    spec = OpenRewardSpec("owner/shop", secrets={"db": SECRET})
    said = message_of(ConfigurationError, lambda: spec.train_dataset)
    assert "'db'" in said
    assert SECRET not in said


def test_a_server_that_gives_no_session_id_is_waited_for_as_long_as_was_said() -> None:
    async def hang(request: Request, reply: Reply) -> None:
        await asyncio.Event().wait()

    with scripted(Protocol(create_session=hang)) as server:
        spec = OpenRewardSpec(server.url, open_timeout=0.5)
        said = message_of(EnvironmentFailure, lambda: spec.train_dataset)
        assert said == f"shop at {server.url}: no session id within 0.5 s"
