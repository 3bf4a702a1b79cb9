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
    "target", ["owner/shop", "http://h", "https://h/with/path", "http://[::1]:8000", "http://u:p@h"]
)
def test_catalog_names_and_urls_are_taken(target: str) -> None:
    assert Endpoint(target).is_url == ("://" in target)


@pytest.mark.parametrize("target", ["ws://h", "http:///x", "http://h:0x1", "http://h\n", "file:///etc"])
def test_other_addresses_are_refused(target: str) -> None:
    with pytest.raises(ConfigurationError, match="no URL of an ORS server"):
        Endpoint(target)


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
