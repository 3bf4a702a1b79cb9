"""What is said of a server that does not let in, and of an address that is more than the server's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import serve
from tests.trainer.commands import SMALL, Command, one_line, written
from tests.trainer.scripted_server import Protocol, Reply, Request, scripted
from trainer.ors.advice import NO_KEY
from trainer.ors.errors import EnvironmentFailure
from trainer.ors.spec import OpenRewardSpec

ASKS = "401: This server needs an API key: send it as X-API-Key, or as Authorization: Bearer."


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    with serve("echo", env={"ENV_API_KEY": "hunter2"}) as url:
        yield url


def test_a_missing_key_and_a_wrong_one_are_told_apart(
    ors_train: Command, closed: str, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "hunter3")
    said = one_line(ors_train("inspect", closed))
    assert said == f"ors-train inspect: environment at {closed}: {ASKS}; {NO_KEY}"
    for flag, sent in (("--api_key", "api_key"), ("--hf_token", "hf_token or headers")):
        said = one_line(ors_train("inspect", closed, flag, "${MY_KEY}"))
        assert said.endswith(f"{ASKS}; the {sent} that it was sent did not open it") and "hunter3" not in said
    said = one_line(ors_train("inspect", closed.replace("://", "://me:${MY_KEY}@")))
    assert said.endswith("the password in the URL that it was sent did not open it") and "hunter3" not in said
    words = ("train", "--url", closed, "--model_name_or_path", tiny_model, "--output_dir", tmp_path / "run", *SMALL)
    assert one_line(ors_train(*words)).endswith(f"{ASKS}; {NO_KEY}")
    file = written(tmp_path / "run.yaml", environments=[{"url": closed, "api_key": "${MY_KEY}"}])
    said = one_line(ors_train("eval", "--config", file, "--model", tiny_model))
    assert said.endswith(f"{ASKS}; the api_key that it was sent did not open it")
    with pytest.raises(EnvironmentFailure) as refusal:
        _ = OpenRewardSpec(closed).train_dataset
    assert refusal.value.__notes__ == [NO_KEY]


@pytest.mark.parametrize("path", ["/gym", "/gym/", "/docs"])
def test_an_address_that_goes_on_after_the_servers_is_named(
    ors_train: Command, gym: str, tiny_model: Path, tmp_path: Path, path: str
) -> None:
    said = one_line(ors_train("inspect", gym + path))
    right = f"{gym} is one: choose the environment with env_name; it has: gym, bare"
    assert said == f"ors-train inspect: {gym}{path.rstrip('/')} is no server's address, and {right}"
    words = ("--url", gym + path, "--env_name", "gym", "--model_name_or_path", tiny_model, "--output_dir", tmp_path)
    assert one_line(ors_train("train", *words, *SMALL)).endswith(right)


def test_an_address_with_a_path_that_serves_is_asked_nothing_more() -> None:
    protocol = Protocol()

    async def below(request: Request, reply: Reply) -> None:
        await protocol(dataclasses.replace(request, path=request.path.removeprefix("/behind/proxy")), reply)

    with scripted(below) as server:
        assert len(OpenRewardSpec(f"{server.url}/behind/proxy").train_dataset) > 0
        assert {request.path.startswith("/behind/proxy/") for request in server.requests} == {True}


def test_nothing_is_made_up_of_an_address_without_a_server() -> None:
    async def nothing(request: Request, reply: Reply) -> None:
        await reply.json({"detail": "Not Found"}, 404)

    with scripted(nothing) as server:
        for url in (server.url, f"{server.url}/echo"):
            with pytest.raises(EnvironmentFailure, match="404: Not Found"):
                _ = OpenRewardSpec(url).train_dataset
