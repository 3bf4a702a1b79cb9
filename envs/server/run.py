"""Runs the server until it is told to stop, and lets it end in good order."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn
import uvloop
from openreward.environments import Environment

from envs.server.app import Application, build
from envs.server.connection import connection_class
from envs.server.settings import Settings

logger = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 60
_BACKLOG = 2048
_THREADS_SECONDS = 0.5
_OPEN_FILES = 65536


def serve(
    environments: Sequence[type[Environment]],
    settings: Settings,
    listener: socket.socket | None = None,
    built: Callable[[], None] = lambda: None,
) -> None:
    """Serve environments until SIGTERM or SIGINT, then finish what runs and return; a second SIGINT ends it at once.

    Args:
        environments: what to serve; the first is the default.
        settings: the server's settings.
        listener: a listening socket; without one, `settings.host` and `settings.port` are listened on.
        built: called once everything is made that can fail, before the first answer.

    Raises:
        OSError: the address cannot be listened on.
        ValueError: see `envs.server.app.build`.
    """
    with listener or socket.create_server((settings.host, settings.port), backlog=_BACKLOG) as listening:
        application = build(environments, settings)
        _warn_if_open(listening, settings)
        _allow_many_files()
        built()
        _run(application, settings, listening)


class _Server(uvicorn.Server):
    """uvicorn's server, which keeps its port open while running calls finish, and does not die of the signal."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not the inherited one: sse-starlette hangs on to it and would cut every running call off here.
        self._application.stop()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def main_loop(self) -> None:
        # What exists now stays: it need not be looked at by every collection of garbage.
        gc.freeze()
        await super().main_loop()
        finishing = asyncio.create_task(self._application.finish())
        while not (finishing.done() or self.force_exit):
            await asyncio.wait([finishing], timeout=0.1)


def _run(application: Application, settings: Settings, listening: socket.socket) -> None:
    config = uvicorn.Config(
        application,
        http=connection_class(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config, application)
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    runner.run(server.serve(sockets=[listening]))
    if application.release_threads(_THREADS_SECONDS):
        runner.close()
    else:
        # A thread cannot be ended from outside, and Python waits for its threads.
        logger.error("an environment's code is still running in a thread; the server ends without it")
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)


def _warn_if_open(listening: socket.socket, settings: Settings) -> None:
    host = listening.getsockname()[0]
    if not settings.api_keys and not ipaddress.ip_address(host).is_loopback:
        logger.warning("listening on %s without ENV_API_KEY: everyone who reaches this port can use it", host)


def _allow_many_files() -> None:
    # One connection is one open file; the usual soft limit of 1,024 would be the first limit that clients meet.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
