"""The process that pings sessions: `python -m trainer.ors.pinger`, started by `keepalive`, never by hand.

Its standard input is one end of a socket pair. Each line it reads is JSON: a session to ping, with where, how and how
often, or a session to ping no more. Each line it writes is the id of a session that its server does not know. It ends
when the other end is closed, which the kernel does however the trainer ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from typing import Any

import aiohttp

from trainer.ors.errors import EnvironmentFailure
from trainer.ors.http import HTTPStatus, http_client
from trainer.ors.wire import Wire

PATIENCE = 30.0  # seconds that one ping may take; the next is not sent before it is over
LONGEST_LINE = 2**20  # bytes: the headers of a session, at most


async def main() -> None:
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=os.dup(0)), limit=LONGEST_LINE)
    clients: dict[str, aiohttp.ClientSession] = {}
    pinged: dict[str, asyncio.Task[None]] = {}
    async for line in reader:
        told = json.loads(line)
        if (task := pinged.pop(told["sid"], None)) is not None:
            task.cancel()
        if "every" in told:
            base = told["base"]
            client = clients[base] = clients.get(base) or http_client(base)
            pinged[told["sid"]] = asyncio.create_task(_ping(told, client, writer))
    os._exit(0)  # nothing to clean up that the kernel does not


async def _ping(told: Mapping[str, Any], client: aiohttp.ClientSession, writer: asyncio.StreamWriter) -> None:
    wire = Wire(client, told["base"], told["headers"], told["base"], PATIENCE)
    while True:
        await asyncio.sleep(told["every"])
        try:
            await wire.request("POST", "/ping", sid=told["sid"], repeatable=True)
        except HTTPStatus as status:
            if status.gone:
                writer.write(told["sid"].encode() + b"\n")
                return
        except EnvironmentFailure:
            pass  # a tool call says what is wrong, to someone who can act on it


if __name__ == "__main__":
    asyncio.run(main())
