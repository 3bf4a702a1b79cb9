"""One HTTP request to an environment's server: what it may do, where it may go, and what its failures mean."""

from __future__ import annotations

import json
import os
import socket
import ssl
import urllib.request
import warnings
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import aiohttp
from yarl import URL

from trainer.ors.endpoint import proxy_variable
from trainer.ors.errors import ConfigurationError, EnvironmentFailure

CONNECT = 10.0  # seconds
IDLE = 1.5  # seconds that a connection is kept for: less than servers do, gunicorn 2 and uvicorn and Node 5
BEGUN = 4  # times at most, where the connection closes before anything of the request is sent
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 4
_GATEWAY = frozenset({429, 502, 503, 504})  # said by what stands before the environment, not by its code
_LONGEST_WAIT = 30.0  # seconds, whatever Retry-After says
_MAX_DETAIL = 2000  # characters


class HTTPStatus(EnvironmentFailure):
    """The server answered with a status of 400 or more.

    Attributes:
        status: The status.
        detail: What the server said, on one line.
    """

    def __init__(self, name: str, status: int, detail: str, headers: Mapping[str, str]) -> None:
        gateway = status in _GATEWAY
        starting = headers.get("X-Backend-State") == "starting"
        super().__init__(
            "unreachable" if gateway or status in (404, 410) else "crash" if status >= 500 else "refused",
            f"{name}: {status}: {detail}",
            retry_after=_seconds(headers.get("Retry-After", "").strip()),
            reached=not (starting or status == 429),
            starting=starting,
        )
        self.status = status
        self.detail = detail

    @property
    def gone(self) -> bool:
        """Whether the server does not know what it was asked about: a session that it closed, or never had."""
        return self.status in (404, 410)


def http_client(base_url: str) -> aiohttp.ClientSession:
    """A pool of connections to one server, as many as there are requests at once.

    The proxy is looked up here, once. aiohttp, told to trust the environment's variables, does so on a helper thread
    before every request, and sends what a `.netrc` holds for the host.

    Raises ConfigurationError where the proxy's variable holds no address.
    """
    with warnings.catch_warnings():
        # aiohttp 3 has no other way to give a pool its proxy's password, yet announces the end of this one.
        warnings.simplefilter("ignore", DeprecationWarning)
        proxy, auth = _proxy(urlsplit(base_url))
        pool = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE)
        return aiohttp.ClientSession(connector=pool, proxy=proxy, proxy_auth=auth)


def _proxy(parts: SplitResult) -> tuple[URL | None, aiohttp.BasicAuth | None]:
    """The proxy for an address, and its password."""
    if not parts.hostname or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None, None
    found = urllib.request.getproxies().get(parts.scheme)
    if not found:
        return None, None
    try:
        url = URL(found if "://" in found else f"http://{found}")
        return url.with_user(None), aiohttp.BasicAuth(url.user, url.password or "") if url.user else None
    except ValueError:  # it may quote the password
        said = f"{proxy_variable(parts.scheme)} holds no address of a proxy: http://, then a host and a port"
        raise ConfigurationError(said) from None


class Exchange:
    """A request as a context manager that gives the response. Its failures are EnvironmentFailure. It follows redirects
    within its own origin alone, so that no key and no secret ever reaches another.

    Args:
        client: The HTTP session.
        name: What to call the server in messages.
        method: `GET` or `POST`.
        url: Scheme, host and path.
        headers: All headers.
        body: Sent as JSON; None for none.
        silence: Seconds after which a response that says nothing counts as broken; None for no limit.
        connect: Seconds in which there must be a connection; None for no limit.
    """

    def __init__(
        self,
        client: aiohttp.ClientSession,
        name: str,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None,
        silence: float | None,
        connect: float | None = CONNECT,
    ) -> None:
        self._client, self._name, self._method, self._url = client, name, method, url
        self._headers, self._body = headers, body
        self._silence = silence
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=silence)
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> aiohttp.ClientResponse:
        try:
            response = await self._request(self._url)
            for _ in range(_MAX_REDIRECTS):
                if response.status not in _REDIRECTS:
                    break
                response = await self._request(self._onward(response))
            if response.status in _REDIRECTS:
                raise EnvironmentFailure("refused", f"{self._name}: redirects from one address to the next without end")
            if response.status >= 400:
                raise await self._failure(response)
            return response
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *error: object) -> None:
        if self._response is not None:
            self._response.release()

    async def _request(self, url: str) -> aiohttp.ClientResponse:
        for _ in range(BEGUN):
            if self._response is not None:
                self._response.release()
            try:
                self._response = await self._client.request(
                    self._method,
                    url,
                    headers=self._headers,
                    json=self._body,
                    allow_redirects=False,
                    timeout=self._timeout,
                )
                return self._response
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                said = f"{self._name}: no connection: {_cause(error)}"
                raise EnvironmentFailure("unreachable", said, reached=False) from None
            except aiohttp.ServerTimeoutError:
                raise EnvironmentFailure("timeout", f"{self._name}: nothing heard for {self._silence:g} s") from None
            except aiohttp.InvalidURL:  # it quotes the address, with the password that may be in it
                raise EnvironmentFailure("refused", f"{self._name}: no request can go to its address") from None
            except (aiohttp.ClientError, OSError) as error:
                said = f"{self._name}: connection lost: {say(error)}"
                if not _nothing_sent(error):
                    raise EnvironmentFailure("unreachable", said) from None
        raise EnvironmentFailure("unreachable", said, reached=False)

    def _onward(self, response: aiohttp.ClientResponse) -> str:
        try:
            target = urljoin(self._url, response.headers.get("Location", ""))
            parts, own = urlsplit(target), urlsplit(self._url)
            if _origin(parts) == _origin(own):
                return parts._replace(netloc=own.netloc).geturl()
            where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        except ValueError:
            where = "an address that is none"
        raise EnvironmentFailure("refused", f"{self._name}: redirects to {where}; give that address if it is meant")

    async def _failure(self, response: aiohttp.ClientResponse) -> EnvironmentFailure:
        try:
            text = (await response.read()).decode("utf-8", "replace")
        except (aiohttp.ClientError, OSError):
            text = ""
        try:
            detail = json.loads(text)["detail"]
        except (ValueError, KeyError, TypeError, RecursionError):
            detail = text
        words = " ".join(str(detail)[:_MAX_DETAIL].split()) or response.reason or "no reason given"
        return HTTPStatus(self._name, response.status, words, response.headers)


def _nothing_sent(error: BaseException) -> bool:
    """Whether the connection was closed before the first byte of the request: the server took it for idle just when it
    was used again. aiohttp writes headers and body at once, so there is no half of a request."""
    return "Cannot write to closing transport" in f"{error} {error.__cause__}"


def _cause(error: BaseException) -> str:
    """Why there is no connection, in the operating system's words where it has some. aiohttp's repeat the address."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    known = isinstance(cause, OSError) and not isinstance(cause, (socket.gaierror, ssl.SSLError)) and cause.errno
    return os.strerror(known) if known else say(cause)


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _seconds(after: str) -> float | None:
    """Retry-After in seconds; its other form, a date, is what no ORS server sends."""
    return min(float(after), _LONGEST_WAIT) if after.isascii() and after.isdigit() else None


def say(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(str(error).split()) or type(error).__name__
