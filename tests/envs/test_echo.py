"""The echo environment, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.episode import Episode
from tests.servers import serve


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve("echo") as base:
        yield base


def targets(url: str, split: str) -> list[str]:
    tasks = httpx.post(f"{url}/echo/tasks", json={"split": split}, trust_env=False).raise_for_status().json()["tasks"]
    return [task["target"] for task in tasks]


def test_splits_are_typed(url: str) -> None:
    splits = httpx.get(f"{url}/echo/splits", trust_env=False).json()
    assert splits == [{"name": "train", "type": "train"}, {"name": "test", "type": "test"}]


def test_train_starts_with_hello_and_world_and_never_meets_the_test_words(url: str) -> None:
    train, test = targets(url, "train"), targets(url, "test")
    assert train[:2] == ["hello", "world"]
    assert (len(set(train)), len(set(test))) == (128, 64)
    assert not set(train) & set(test)


def test_targets_are_lower_case_words_of_four_to_seven_letters(url: str) -> None:
    words = targets(url, "train") + targets(url, "test")
    assert [word for word in words if not re.fullmatch(r"[a-z]{4,7}", word)] == []
    assert [word for word in words if not re.search(r"[aeiou]", word) or re.search(r"[^aeiou]{5}", word)] == []


def test_words_are_about_equally_long_in_both_splits(url: str) -> None:
    train, test = ([len(word) for word in targets(url, split)] for split in ("train", "test"))
    assert all(abs(train.count(length) / 128 - test.count(length) / 64) < 0.05 for length in range(4, 8))


def test_targets_are_the_same_in_every_process(url: str) -> None:
    with serve("echo") as other:
        assert targets(url, "test") == targets(other, "test")


def test_the_tool_tells_what_its_argument_is(url: str) -> None:
    (tool,) = httpx.get(f"{url}/echo/tools", trust_env=False).json()["tools"]
    assert (tool["name"], tool["description"]) == ("echo", "Submit a string.")
    assert tool["input_schema"]["required"] == ["text"]
    assert tool["input_schema"]["properties"]["text"]["description"] == "The string to echo back."


def test_the_prompt_names_the_target(url: str) -> None:
    with Episode(url, "echo", split="train", index=0) as episode:
        assert episode.prompt() == "Echo 'hello' to win."


def test_an_exact_match_scores_one_and_ends_the_episode(url: str) -> None:
    with Episode(url, "echo", split="train", index=1) as episode:
        told = episode.call("echo", text="world")
        assert (told["text"], told["reward"], told["finished"]) == ("match", 1.0, True)
        assert episode.answer("echo", {"text": "world"})["reason"] == "episode_finished"


@pytest.mark.parametrize("guess", ["", "hell", "Hello", "hello ", " hello", "'hello'", "world"])
def test_anything_else_scores_zero_and_goes_on(url: str, guess: str) -> None:
    with Episode(url, "echo", split="train", index=0) as episode:
        told = episode.call("echo", text=guess)
        assert (told["text"], told["reward"], told["finished"]) == ("no match", 0.0, False)
        assert episode.call("echo", text="hello")["reward"] == 1.0


def test_sessions_have_their_own_targets(url: str) -> None:
    with Episode(url, "echo", split="train", index=0) as one, Episode(url, "echo", split="test", index=0) as other:
        assert one.prompt() != other.prompt()
        assert other.call("echo", text="hello")["reward"] == 0.0
        assert one.call("echo", text="hello")["reward"] == 1.0


def test_a_task_can_be_given_as_its_row(url: str) -> None:
    with Episode(url, "echo", task_spec={"target": "given"}) as episode:
        assert episode.call("echo", text="given")["reward"] == 1.0


def test_a_missing_argument_is_refused_and_the_episode_goes_on(url: str) -> None:
    with Episode(url, "echo", split="train", index=0) as episode:
        assert episode.answer("echo", {})["reason"] == "input_validation"
        assert episode.call("echo", text="hello")["finished"]
