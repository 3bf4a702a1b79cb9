"""The few paths that are this server's own; everything else is the protocol's."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from envs.server.asgi import answer


class Routes:
    """Answers a GET or a HEAD of its own paths, and passes on what is for others.

    Args:
        app: where everything else goes.
        routes: apps by exact path, or by a prefix that ends in "/".
    """

    def __init__(self, app: ASGIApp, routes: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._exact = {path: route for path, route in routes.items() if path == "/" or not path.endswith("/")}
        self._prefixes = {path: route for path, route in routes.items() if path not in self._exact}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._find(scope["path"]) if scope["type"] == "http" else None
        if route is None:
            await self._app(scope, receive, send)
        elif scope["method"] in ("GET", "HEAD"):
            await route(scope, receive, send)
        else:
            await answer(scope, send, 405, {"detail": "Method Not Allowed"}, {"allow": "GET, HEAD"})

    def _find(self, path: str) -> ASGIApp | None:
        if path in self._exact:
            return self._exact[path]
        return next((route for prefix, route in self._prefixes.items() if path.startswith(prefix)), None)
