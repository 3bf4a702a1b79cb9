"""Which way requests go out: through the proxy of the environment's variables, or straight."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from trainer.ors.errors import ConfigurationError
from trainer.ors.http import http_client


class Answers(BaseHTTPRequestHandler):
    """Answers any GET, as a proxy or as itself, with what it was asked."""

    def do_GET(self) -> None:
        names = ("Proxy-Authorization", "Authorization")
        body = json.dumps([self.path, *(self.headers.get(name) for name in names)]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def asked(base_url: str) -> list[str | None]:
    """What arrives for a request: its target, and both kinds of credentials."""

    async def ask() -> list[str | None]:
        async with http_client(base_url) as client, client.get(f"{base_url}/health") as response:
            told: list[str | None] = await response.json(content_type=None)
            return told

    return asyncio.run(ask())


def test_a_proxy_is_used_with_its_own_credentials(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:secret@{address}")
    basic = "Basic " + base64.b64encode(b"me:secret").decode()
    assert asked("http://environments.example") == ["http://environments.example/health", basic, None]


def test_a_proxy_without_a_scheme_is_one_of_http(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", address)
    assert asked("http://environments.example") == ["http://environments.example/health", None, None]


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY"])
@pytest.mark.parametrize(
    "proxy", ["http://me:s3cret@proxy:80x", "me:s3cret@proxy:99999", "http://me%3a:s3cret@proxy", "http://s3cret@ü..x"]
)
def test_a_variable_that_holds_no_proxy_is_named_and_not_repeated(
    address: str, monkeypatch: pytest.MonkeyPatch, variable: str, proxy: str
) -> None:
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(ConfigurationError) as caught:
        asked(f"http://{address}")
    assert str(caught.value).startswith(f"{variable} holds no address of a proxy")
    assert "s3cret" not in str(caught.value)


def test_a_host_of_no_proxy_is_asked_itself(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert asked(f"http://{address}") == ["/health", None, None]


def test_no_connection_is_used_again_that_a_common_server_may_be_closing_as_idle() -> None:
    """gunicorn does after 2 s, uvicorn and Node after 5."""
    connections: list[int] = []

    class Counts(Answers):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            connections.append(self.client_address[1])

    async def ask(base_url: str) -> None:
        async with http_client(base_url) as client:
            for pause in (0.0, 0.0, 2.0):
                await asyncio.sleep(pause)
                async with client.get(f"{base_url}/health") as response:
                    await response.read()

    with ThreadingHTTPServer(("127.0.0.1", 0), Counts) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        asyncio.run(ask(f"http://127.0.0.1:{server.server_port}"))
        server.shutdown()
        thread.join()
    assert 2 <= len(connections) <= 3


def test_nothing_of_a_netrc_file_is_sent(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    assert asked(f"http://{address}") == ["/health", None, None]
