"""The page at `/`: what is served here, and a playground that talks to it as any other client does."""

from __future__ import annotations

import inspect
import json
import logging
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openreward.environments import Environment
from starlette.types import Receive, Scope, Send

from envs import card
from envs.server.asgi import answer, send_bytes

logger = logging.getLogger(__name__)

_STATIC = Path(__file__).with_name("static")
_HEADERS = {
    # Framed only by itself and by the site that shows Spaces; nothing from another host, no inline script or style.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self' https://huggingface.co https://*.hf.space"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}
_HOMES = {"/page": "./", "/page/": "../"}


class Page:
    """Serves `/` and what is under `/page/`, all of it read once, at the start; `/page` itself leads to `/`.

    Args:
        environments: what the server serves; the README.md beside each one's code describes it.
        key_needed: whether the page asks for an API key.
    """

    def __init__(self, environments: Sequence[type[Environment]], key_needed: bool) -> None:
        about = {"key_needed": key_needed, "environments": [describe(environment) for environment in environments]}
        self._files = {f"/page/{file.name}": (file.read_bytes(), _media_type(file)) for file in _STATIC.iterdir()}
        self._files["/"] = self._files.pop("/page/index.html")
        self._files["/page/about.json"] = (json.dumps(about).encode(), "application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _HOMES:
            # Relative, as the page's own links are: there may be a proxy's prefix before it.
            await send_bytes(scope, send, 307, b"", "text/plain", {"location": _HOMES[scope["path"]]})
            return
        if scope["path"] not in self._files:
            await answer(scope, send, 404, {"detail": "Not Found"})
            return
        body, media_type = self._files[scope["path"]]
        await send_bytes(scope, send, 200, body, media_type, _HEADERS)


def describe(environment: type[Environment]) -> dict[str, Any]:
    """Return an environment's name, and from its README the title, the emoji and the first paragraph."""
    readme = card.read(Path(inspect.getfile(environment)).parent)
    if readme.problem:
        logger.warning("%s", readme.problem)
    return {
        "name": environment.name().lower(),
        "title": str(readme.matter.get("title") or environment.name()),
        "emoji": str(readme.matter.get("emoji") or ""),
        "description": readme.paragraph,
    }


def _media_type(file: Path) -> str:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
