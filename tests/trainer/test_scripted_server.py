"""The scripted server leaves nothing behind: what it forgot would be told in another test's name."""

from __future__ import annotations

import gc
import socket
import threading
from contextlib import closing

from tests.trainer.conftest import until
from tests.trainer.scripted_server import Protocol, ScriptedServer


def test_a_connection_that_comes_while_the_server_closes_is_closed_as_well() -> None:
    server = ScriptedServer(Protocol())
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        free.wait(10)

    server._loop.call_soon_threadsafe(hold)
    held.wait(10)
    with closing(socket.create_connection(("127.0.0.1", server.port))):
        closer = threading.Thread(target=server.close)
        closer.start()
        until(lambda: bool(server._loop._ready))  # type: ignore[attr-defined]  # closing waits behind what holds the loop
        free.set()
        closer.join(10)
        assert not closer.is_alive()
        gc.collect()
