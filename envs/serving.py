"""`ors-env serve`: environments in one server, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from envs import catalog


def serve(names: Sequence[str], host: str, port: int) -> None:
    """Serve the named environments until the process is told to stop.

    Args:
        names: environments of the catalog; the first answers requests that name none.
        port: 0 takes a free one.

    Raises:
        OSError: the address is taken or cannot be listened on; raised before any environment is loaded.
        envs.catalog.CatalogError: an environment is missing or cannot be loaded.
        ValueError: a variable cannot be used (see docs/server.md), or an environment cannot be served.
    """
    listener = listen(host, port)
    try:
        _run(names, listener)
    finally:
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 takes a free one.

    Raises:
        OSError: the address is taken or cannot be listened on.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def _run(names: Sequence[str], listener: socket.socket) -> None:
    from envs import server

    environments = [catalog.load(name) for name in names]
    settings = server.Settings.from_environ(os.environ)
    print(_greeting(names, listener), flush=True)
    server.serve(environments, settings, listener)


def _greeting(names: Sequence[str], listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    url = f"http://{reachable}:{port}"
    specs = [f'  spec = OpenRewardSpec("{url}", env_name="{name}", split="train")' for name in names]
    where = f"{', '.join(names)} at {url} (in a browser: a page to try it by hand; Ctrl-C stops)"
    return "\n".join([where, "  from trainer import OpenRewardSpec", *specs])
