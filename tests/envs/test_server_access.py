"""Who may use a server that has keys, and one that has none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from openreward import AsyncOpenReward

from tests.envs.trial import TrialServer, trial_server


@pytest.fixture(scope="module")
def server() -> Iterator[TrialServer]:
    with trial_server(ENV_API_KEY="first-key, second-key") as running:
        yield running


@pytest.fixture(scope="module")
def http(server: TrialServer) -> httpx.Client:
    return server.client()


PROTECTED = [
    ("GET", "/list_environments"),
    ("GET", "/version"),
    ("GET", "/trial/tools"),
    ("POST", "/create_session"),
    ("POST", "/create"),
    ("POST", "/trial/call"),
    ("POST", "/ping"),
    ("GET", "/ready"),
    ("GET", "/metrics"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing/here"),
    ("GET", "/health/"),
    ("GET", "/pageant"),
]


@pytest.mark.parametrize(("method", "path"), PROTECTED)
def test_without_a_key_nothing_is_served(http: httpx.Client, method: str, path: str) -> None:
    response = http.request(method, path)
    assert response.status_code == 401
    assert "X-API-Key" in response.json()["detail"]
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/page", "/page/"])
def test_the_page_is_found_under_its_name_too(http: httpx.Client, path: str) -> None:
    found = http.get(path, follow_redirects=True)
    assert (found.status_code, found.url.path) == (200, "/")
    assert found.text == http.get("/").text


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": "first-key"},
        {"X-API-Key": "second-key"},
        {"Authorization": "Bearer second-key"},
        {"Authorization": "bearer first-key"},
        {"Authorization": "Bearer of-something-else", "X-API-Key": "first-key"},
    ],
)
def test_either_key_opens_in_either_header(http: httpx.Client, headers: dict[str, str]) -> None:
    assert http.get("/list_environments", headers=headers).json() == ["trial"]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": ""},
        {"X-API-Key": "first-ke"},
        {"X-API-Key": "first-key2"},
        {"X-API-Key": "first-key, second-key"},
        {"X-API-Key": "FIRST-KEY"},
        {"Authorization": "first-key"},
        {"Authorization": "Basic first-key"},
        {"X-Session-ID": "first-key"},
    ],
)
def test_anything_else_is_refused(http: httpx.Client, headers: dict[str, str]) -> None:
    assert http.get("/list_environments", headers=headers).status_code == 401


def test_a_key_of_any_bytes_is_refused_like_a_wrong_one(http: httpx.Client) -> None:
    assert http.get("/list_environments", headers=[(b"X-API-Key", b"\xff\xfe")]).status_code == 401


@pytest.mark.parametrize("path", ["/", "/health", "/page/about.json"])
def test_health_and_the_page_are_open(http: httpx.Client, path: str) -> None:
    assert http.get(path).status_code == 200


def test_the_sdk_client_gets_in_with_the_key(server: TrialServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREWARD_DISABLE_UPDATE_CHECK", "1")

    async def prompt() -> str:
        client = AsyncOpenReward(api_key="second-key")
        environment = client.environments.get("trial", variant="trial", base_url=server.url)
        try:
            async with environment.session(split="train", index=0) as session:
                return str((await session.get_prompt())[0].text)
        finally:
            await client.environments.aclose()

    assert asyncio.run(prompt()) == "Say a."


def test_a_server_without_keys_is_open_and_says_so_beyond_loopback() -> None:
    with trial_server(HOST="0.0.0.0") as outside:
        assert outside.client().get("/list_environments").status_code == 200
        assert outside.log().count("\n") == 1
        assert "without ENV_API_KEY" in outside.log()


@pytest.mark.parametrize("variables", [{"HOST": "127.0.0.1"}, {"HOST": "0.0.0.0", "ENV_API_KEY": "first-key"}])
def test_a_server_that_is_not_open_to_all_has_nothing_to_warn_of(variables: dict[str, str]) -> None:
    with trial_server(**variables) as server:
        assert server.log() == ""
