"""`ors-env serve`: environments in one server, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from envs import catalog


class ServingError(Exception):
    """Nothing can be served; the message is one line for a person."""


def serve(names: Sequence[str], host: str, port: int) -> None:
    """Serve the named environments until the process is told to stop.

    Args:
        names: environments of the catalog; the first answers requests that name none.
        port: 0 takes a free one.

    Raises:
        ServingError: the address is taken or cannot be listened on, which is tried before any environment is loaded; a
            variable cannot be used (see docs/server.md); or an environment cannot be served.
        envs.catalog.CatalogError: an environment is missing, cannot be loaded, or its own code fails.
    """
    listener = listen(host, port)
    try:
        _run(names, listener)
    finally:
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 takes a free one.

    Raises:
        ServingError: the address is taken or cannot be listened on.
    """
    try:
        return _listener(host, port)
    except (OSError, UnicodeError) as error:  # the second for a name that no host can have
        reason = getattr(error, "strerror", None) or str(error)
        raise ServingError(f"cannot listen on {host}:{port}: {reason.lower()}") from error


def _listener(host: str, port: int) -> socket.socket:
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
    from envs.server import sdk

    environments = [catalog.load(name) for name in names]
    for name, environment in zip(names, environments, strict=True):
        with catalog.own_code(name):  # asked here, where it is known whose code it is
            environment.list_tools()
            sdk.splits(environment)
    try:
        settings = server.Settings.from_environ(os.environ)
        server.serve(environments, settings, listener, lambda: print(_greeting(names, listener), flush=True))
    except ValueError as error:
        raise ServingError(" ".join(str(error).split())) from error


def _greeting(names: Sequence[str], listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    url = f"http://{everywhere.get(host, f'[{host}]' if ':' in host else host)}:{port}"
    where = f"{', '.join(names)} at {url} (in a browser: a page to try it by hand; Ctrl-C stops)"
    specs = [f'  spec = OpenRewardSpec("{url}", env_name="{name}", split="train")' for name in names]
    # A container does not know under which port it is published.
    notes = ["  # from elsewhere with the host and the port that lead here, for a container those it is published at"]
    return "\n".join([where, "  from trainer import OpenRewardSpec", *specs, *(notes if host in everywhere else [])])
