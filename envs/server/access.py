"""Who may use the server: a request carries one of the operator's keys, or it goes no further."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from envs.server.asgi import answer

DETAIL = "This server needs an API key: send it as X-API-Key, or as Authorization: Bearer."


class Access:
    """Let requests through that carry a key, all of them where there are no keys.

    Args:
        app: what the requests are for.
        keys: the keys; any one of them will do.
        open_paths: exact paths, or prefixes that end in "/", that need no key.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str], open_paths: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode()) for key in keys]
        self._open = frozenset(path for path in open_paths if not path.endswith("/") or path == "/")
        self._open_prefixes = tuple(path for path in open_paths if path.endswith("/") and path != "/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._allowed(scope):
            await self._app(scope, receive, send)
        else:
            await answer(scope, send, 401, {"detail": DETAIL}, {"www-authenticate": "Bearer"})

    def _allowed(self, scope: Scope) -> bool:
        if not self._digests or scope["path"] in self._open or scope["path"].startswith(self._open_prefixes):
            return True
        # Every key is compared with every candidate, whatever matched before: the time tells nothing about the keys.
        matches = [
            hmac.compare_digest(_digest(given), digest) for given in _candidates(scope) for digest in self._digests
        ]
        return any(matches)


def _candidates(scope: Scope) -> list[bytes]:
    given = [value.strip() for name, value in scope["headers"] if name == b"x-api-key"]
    for name, value in scope["headers"]:
        scheme, _, token = value.partition(b" ")
        if name == b"authorization" and scheme.lower() == b"bearer":
            given.append(token.strip())
    return given


def _digest(key: bytes) -> bytes:
    # Digests have one length, so that comparing them does not tell a key's length.
    return hashlib.sha256(key).digest()
