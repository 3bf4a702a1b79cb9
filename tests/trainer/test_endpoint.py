"""Where an environment is: an address that compares, pickles and shows no secret."""

from __future__ import annotations

import pickle

import pytest

from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import ConfigurationError


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_it_compares_by_value_and_pickles() -> None:
    endpoint = Endpoint("http://h:1", "shop", "key", (("X-A", "b"),), (("s", ("v", ("d",))),), keepalive=3.0)
    assert pickle.loads(pickle.dumps(endpoint)) == endpoint
    assert hash(pickle.loads(pickle.dumps(endpoint))) == hash(endpoint)
    assert endpoint != Endpoint("http://h:1", "shop", "other")


def test_what_it_shows_holds_no_secret() -> None:
    endpoint = Endpoint("https://me:pw@h/x", None, "key", (("X-A", "head"),), (("s", "sec"),))
    assert repr(endpoint) == "Endpoint('https://h/x', env_name=None)"
    assert str(endpoint) == repr(endpoint)


@pytest.mark.parametrize(
    "target",
    ["owner/shop", "own.er/shop", "shop", "http://h", "https://h/with/path", "http://[::1]:8000", "http://u:p@h"],
)
def test_catalog_names_and_urls_are_taken(target: str) -> None:
    assert Endpoint(target).is_url == ("://" in target)


@pytest.mark.parametrize("target", ["ws://h", "http:///x", "http://h:0x1", "http://h\n", "file:///etc"])
def test_other_addresses_are_refused(target: str) -> None:
    with pytest.raises(ConfigurationError, match="no URL of an ORS server"):
        Endpoint(target)


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("http://me:s3cret/pass#word@127.0.0.1:1", "'http://127.0.0.1:1'"),
        ("http://me:s3cret/pass?word@127.0.0.1:1", "'http://127.0.0.1:1'"),
        ("http://me:123/s3cret@h", "'http://h'"),
        ("http://me:s3://cret-s3cret@h:1", "'http://h:1'"),
        ("http://me:s3cret", "'http://me'"),
        ("http://me:s3cret@[::1", "'http://[::1'"),
        ("http://me:s3cret@[::1]x:1", "'http://[::1]x:1'"),
        ("https://me:s3cret@münchen..example:8000/x", "'https://münchen..example:8000'"),
        ("https://me:s3cret@a\u200db", "'https://a\\u200db'"),
        ("http://me:s3\\cret-s3cret@h:1", "'http://h:1'; http:// or https://, then a host; in a password"),
        ("http://me:s3cret@a\\b:1", "'http://a\\\\b:1'"),
        ("htp://me:s3cret@h", "'htp://h'"),
        ("http://h:80?token=s3cret", "http://h:80, goes on with ? or #"),
        ("http://h/x#s3cret", "http://h, goes on with ? or #"),
        ("http://me:s3cret@h?u=http://s3cret", "http://h, goes on with ? or #"),
        ("http://h?", "http://h, goes on with ? or #"),
        ("me:s3cret@h:1", "'h:1'"),
        ("h?token=s3cret&u=http://x", "'h'"),
    ],
)
@pytest.mark.parametrize("by_variable", [False, True])
def test_of_an_address_that_is_none_nothing_is_shown_that_may_be_secret(
    monkeypatch: pytest.MonkeyPatch, target: str, shown: str, by_variable: bool
) -> None:
    if by_variable:
        monkeypatch.setenv("OPENREWARD_SESSION_URL", target)
    with pytest.raises(ConfigurationError) as caught:
        _ = Endpoint("http://127.0.0.1:1" if by_variable else target).base_url
    said = str(caught.value)
    assert shown in said
    assert "s3cret" not in said


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("127.0.0.1:8000", "127.0.0.1:8000"),
        ("localhost", "localhost"),
        ("LOCALHOST:8000/x", "LOCALHOST:8000"),
        ("echo:8000", "echo:8000"),
        ("[::1]:8000", "[::1]:8000"),
        ("my-org-my-env.hf.space", "my-org-my-env.hf.space"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_servers_address_without_http_is_told_from_a_catalog_name(target: str, shown: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Endpoint(target)
    assert f"{shown!r} is no catalog name" in str(caught.value)
    assert "write http:// before it" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "proxy", "no_proxy", "named"),
    [
        ("http://127.0.0.1:1", "HTTP_PROXY", "", "HTTP_PROXY"),
        ("http://127.0.0.1:1", "http_proxy", "", "http_proxy"),
        ("http://echo:8000", "HTTP_PROXY", "", "HTTP_PROXY"),
        ("http://10.0.0.7", "HTTP_PROXY", "", "HTTP_PROXY"),
        ("http://[::1]:8000", "HTTP_PROXY", "", "HTTP_PROXY"),
        ("https://echo.internal", "HTTPS_PROXY", "", "HTTPS_PROXY"),
        ("http://127.0.0.1:1", "HTTPS_PROXY", "", None),
        ("http://127.0.0.1:1", "HTTP_PROXY", "localhost,127.0.0.1", None),
        ("http://echo:8000", "HTTP_PROXY", "echo", None),
        ("https://my-org-my-env.hf.space", "HTTPS_PROXY", "", None),
        ("owner/shop", "HTTPS_PROXY", "", None),
    ],
)
def test_the_proxy_variable_that_swallows_a_local_address_is_found(
    monkeypatch: pytest.MonkeyPatch, target: str, proxy: str, no_proxy: str, named: str | None
) -> None:
    monkeypatch.setenv(proxy, "http://proxy.example:3128")
    if no_proxy:
        monkeypatch.setenv("NO_PROXY", no_proxy)
    assert Endpoint(target).swallowing_proxy() == named
