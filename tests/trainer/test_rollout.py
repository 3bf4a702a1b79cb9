"""The adapter: what a trainer sees of it, what it sends, and what it makes of the answers."""

from __future__ import annotations

import gc
import inspect
import multiprocessing
import pickle
from typing import Any

import pytest

from tests.servers import free_port
from tests.trainer.conftest import record, until
from tests.trainer.scripted_server import Protocol, Reply, Request, ScriptedServer, scripted
from trainer import OpenRewardSpec
from trainer.ors import loop
from trainer.ors.errors import EnvironmentFailure, ToolRefused
from trainer.ors.http import HTTPStatus
from trainer.ors.rollout import STATE, Rollout


def rollout_on(url: str, reset: bool = True, **settings: Any) -> Any:
    rollout = OpenRewardSpec(url, **settings).environment_factory()
    if reset:
        assert rollout.reset(task_index=0)
        assert rollout.failure is None
    return rollout


def public_methods(rollout: Rollout) -> set[str]:
    """As TRL collects them."""
    found = inspect.getmembers(type(rollout), predicate=inspect.isfunction)
    return {name for name, _ in found if not name.startswith("_")}


# ── what the trainer sees ──────────────────────────────────────────

TOOLS = {"calls_", "crash", "defaults", "hidden", "reset_", "say", "score", "wait"}


def test_nothing_is_public_but_reset_and_the_tools(workshop: str) -> None:
    assert public_methods(rollout_on(workshop, reset=False)) == {"reset", *TOOLS}


def test_get_reward_is_offered_where_it_was_asked_for(workshop: str) -> None:
    rollout = rollout_on(workshop, offer_reward=True, unfinished_reward=-1.0)
    assert public_methods(rollout) == {"reset", "get_reward", *TOOLS}
    assert rollout.get_reward() == -1.0
    rollout.score(reward=0.5)
    assert rollout.get_reward() == 0.5


def test_tools_named_like_the_adapters_own_names_are_called_by_their_wire_names(workshop: str) -> None:
    rollout = rollout_on(workshop)
    assert rollout.reset_() == "reset by the tool"
    assert rollout.calls_() == "calls by the tool"
    assert rollout.hidden() == "not hidden"
    assert [call.tool for call in rollout.calls] == ["reset", "calls", "_hidden"]


@pytest.mark.parametrize(
    "name",
    [*STATE, "reset", "get_reward", "web-search", "_x", "class", "__init__", "_call", "_plan", "1st", "über", ""],
)
def test_any_tool_name_is_bound_and_called(name: str) -> None:
    protocol = Protocol()
    protocol.tools = [{"name": name, "description": "", "input_schema": None}]
    with scripted(protocol) as server:
        rollout = rollout_on(server.url, offer_reward=True)
        [tool] = public_methods(rollout) - {"reset", "get_reward"}
        assert getattr(rollout, tool)() == "ok"
        assert protocol.calls == [{"name": name, "input": {}}]


def test_arguments_that_were_not_given_are_not_sent(workshop: str) -> None:
    rollout = rollout_on(workshop)
    assert rollout.defaults() == "from the factory"
    rollout.defaults(count=4)
    rollout.defaults(note=None, words=["a"])
    assert record(workshop)["given"] == [[], ["count"], ["note", "words"]]


def test_the_same_environment_gives_the_same_class_and_another_one_another(workshop: str, pair: str) -> None:
    one = type(rollout_on(workshop, reset=False))
    assert type(rollout_on(workshop, reset=False)) is one
    assert type(rollout_on(workshop, reset=False, split="test")) is not one
    assert type(rollout_on(pair, reset=False, env_name="second-shop")) is not one


def test_a_tool_before_the_first_reset_is_the_programmers_error(workshop: str) -> None:
    with pytest.raises(RuntimeError, match="before reset"):
        rollout_on(workshop, reset=False).say(text="a")


# ── an episode ─────────────────────────────────────────────────────


def test_state_is_kept_for_reward_shaping(workshop: str) -> None:
    rollout = rollout_on(workshop)
    assert (rollout.reward, rollout.rewards, rollout.metadata, rollout.finished) == (None, [], [], False)
    rollout.score(reward=0.25, text="a quarter")
    rollout.say(text="hello")
    rollout.score(reward=0.0, finished=True)
    assert rollout.reward == 0.0
    assert rollout.rewards == [0.25, None, 0.0]
    assert rollout.metadata == [None, {"length": 5}, None]
    assert (rollout.finished, rollout.last_output) == (True, "scored")
    assert [call.result for call in rollout.calls] == ["a quarter", "hello", "scored"]
    assert all(call.seconds > 0 for call in rollout.calls)
    assert rollout.open_seconds > 0
    assert (rollout.task.split, rollout.task.index) == ("train", 0)


@pytest.mark.parametrize("text", [" " * 20_000, "a\r\nb\n\n\tc", "  - yaml: |\n      x\n" * 1000, "😀\u2028é" * 3000])
def test_text_comes_back_as_it_went(workshop: str, text: str) -> None:
    assert rollout_on(workshop).say(text=text) == text


def test_a_reset_closes_the_session_before(workshop: str) -> None:
    rollout = rollout_on(workshop)
    rollout.score(reward=1.0, finished=True)
    assert rollout.reset(task_index=1) == "Make beta."
    assert (rollout.reward, rollout.rewards, rollout.calls, rollout.finished) == (None, [], [], False)
    until(lambda: record(workshop)["open"] == 1)


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({}, "Make alpha."),
        ({"task_index": None, "split": None}, "Make alpha."),
        ({"task_index": 1, "split": "test"}, "Make psi."),
        ({"task_index": 1, "self": "x", "prompt": [], "environment": "else"}, "Make beta."),
    ],
)
def test_reset_takes_a_whole_row(workshop: str, row: dict[str, Any], prompt: str) -> None:
    assert rollout_on(workshop, reset=False).reset(**row) == prompt


def test_what_was_prepared_is_used_once_and_only_for_its_task(workshop: str) -> None:
    rollout = rollout_on(workshop, reset=False)
    record(workshop, forget=True)
    rollout._prepare({"task_index": 1})
    assert rollout.reset(task_index=1) == "Make beta."
    assert record(workshop)["ran"]["setup"] == 1
    rollout._prepare({"task_index": 1})
    assert rollout.reset(task_index=2) == "Make gamma."
    until(lambda: record(workshop)["open"] == 1)
    assert record(workshop)["ran"] == {"setup": 3, "teardown": 2}


# ── mistakes and failures ──────────────────────────────────────────


def test_the_models_mistakes_are_told_to_it_and_the_episode_goes_on(workshop: str) -> None:
    rollout = rollout_on(workshop)
    said = rollout.say(text=7)
    assert said.startswith("Error: ")
    assert "valid string" in said
    assert rollout.say(text=float("nan")) == "Error: The arguments are not valid JSON."
    assert rollout.say(text="on") == "on"
    assert [call.error for call in rollout.calls] == ["bad_arguments", "bad_arguments", None]
    assert rollout.rewards == [None, None, None]
    assert rollout.failure is None
    assert not rollout.finished


def test_after_the_end_nothing_is_sent(workshop: str) -> None:
    rollout = rollout_on(workshop)
    rollout.score(reward=1.0, finished=True)
    assert rollout.score(reward=0.0) == f"Error: {loop.AFTER_END}"
    assert rollout.calls[-1].error == "after_end"
    assert rollout.rewards == [1.0, None]
    assert rollout.reward == 1.0
    assert sum(request["path"].endswith("/call") for request in record(workshop)["requests"]) == 1


def test_an_end_that_the_server_knew_of_is_an_end() -> None:
    async def call(request: Request, reply: Reply) -> None:
        result = '{"ok": false, "error": "it was over", "reason": "episode_finished"}'
        await reply.stream(("task_id", "t"), ("end", result))

    with scripted(Protocol(call=call)) as server:
        rollout = rollout_on(server.url)
        assert rollout.add(n=1) == "Error: it was over"
        assert rollout.finished
        rollout.add(n=1)
        assert server.count("/shop/call") == 1


def test_a_tool_that_crashes_ends_the_rollout_unscored(workshop: str) -> None:
    rollout = rollout_on(workshop)
    said = rollout.crash()
    assert "saw" not in said
    assert (rollout.failure.kind, rollout.finished, rollout.reward) == ("crash", False, None)
    assert "the saw is broken" in str(rollout.failure)
    rollout.say(text="a")
    assert [call.error for call in rollout.calls] == ["crash", "crash"]
    assert "say" not in record(workshop)["ran"]


def test_a_server_that_dies_is_a_failure_and_a_later_reset_works_again() -> None:
    port = free_port()
    server = ScriptedServer(Protocol(), port)
    rollout = rollout_on(server.url, open_timeout=3.0)
    rollout.add(n=1)
    server.close()
    rollout.add(n=1)
    assert (rollout.failure.kind, rollout.rewards, rollout.reward) == ("unreachable", [1.0, None], 1.0)

    assert "could not be reached" in rollout.reset(task_index=0)
    assert rollout.failure.kind == "unreachable"
    assert rollout.add(n=1).startswith("Error: ")
    assert rollout.rewards == [None]

    server = ScriptedServer(Protocol(), port)
    assert rollout.reset(task_index=1) == "train 1"
    assert rollout.failure is None
    assert rollout.add(n=1) == "ok"
    server.close()


def test_an_adapter_that_is_dropped_closes_its_session(workshop: str) -> None:
    rollouts = [rollout_on(workshop) for _ in range(4)]
    rollouts.append(rollout_on(workshop, reset=False))
    rollouts[-1]._prepare({"task_index": 0})  # its session is still being opened when it goes
    assert record(workshop)["open"] >= 4
    rollouts.clear()
    gc.collect()
    until(lambda: record(workshop)["open"] == 0 and record(workshop)["ran"]["setup"] >= 5)


@pytest.mark.parametrize("row", [{"task_index": 99}, {"task_index": 0, "split": "no such"}])
def test_a_row_that_the_server_does_not_know_is_a_failure_not_an_exception(workshop: str, row: dict[str, Any]) -> None:
    rollout = rollout_on(workshop, reset=False)
    rollout.reset(**row)
    assert rollout.failure.kind == "refused"


# ── other processes ────────────────────────────────────────────────


def play(factory: Any, adapter: type[Rollout], reward: Any, answers: Any) -> None:
    """An episode in a worker process; what it sends home is everything that may have to pickle."""
    rollout = factory()
    rollout.reset(task_index=1, split="test")
    rollout.score(reward=0.75)
    failed = adapter()
    failed.reset(task_index=99)
    answers.put((type(rollout) is adapter, reward([rollout, failed]), failed.failure, rollout.calls))


def test_factory_class_and_reward_work_in_a_spawned_process(workshop: str) -> None:
    spec = OpenRewardSpec(workshop, unfinished_reward=0.5)
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    arguments = (spec.environment_factory, type(spec.environment_factory()), spec.reward_funcs, answers)
    worker = spawn.Process(target=play, args=arguments)
    worker.start()
    same, scores, failure, calls = answers.get(timeout=60)
    worker.join()
    assert worker.exitcode == 0
    assert same
    assert scores == [0.75, None]
    assert (failure.kind, failure.status) == ("refused", 400)
    assert calls[0].reward == 0.75
    assert record(workshop)["open"] == 0


@pytest.mark.parametrize(
    "error",
    [
        EnvironmentFailure("timeout", "late", retry_after=3.0, reached=False, starting=True),
        ToolRefused("unknown_tool", "no such tool"),
        HTTPStatus("shop", 503, "starting", {"X-Backend-State": "starting"}),
    ],
)
def test_errors_come_home_whole(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
