"""Ten minutes of mixed sessions, shortened: good, careless and dead clients at once, and sums that add up."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx
import pytest

from tests.envs.trial import TrialServer, trial_server, until
from tests.episode import events

CLIENTS = 40
EPISODES = 12
MAX_SESSIONS = 30


@dataclass
class Ledger:
    """What the clients have seen: the server's own metrics must say the same."""

    opened: int = 0
    closed: int = 0
    turned_away: int = 0
    too_long: int = 0
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)


class Client:
    """One client after another's kind of episode, with a session id of its own for each."""

    def __init__(self, http: httpx.AsyncClient, number: int, ledger: Ledger) -> None:
        self._http = http
        self._number = number
        self._random = random.Random(number)
        self._ledger = ledger
        self._headers: dict[str, str] = {}

    async def play(self) -> None:
        kinds: list[Callable[[], Awaitable[None]]] = [self.win, self.crash, self.vanish, self.overload]
        for episode in range(EPISODES):
            self._headers = {"X-Session-ID": f"client-{self._number}-{episode}"}
            await self._open()
            await self._random.choices(kinds, weights=[6, 2, 1, 1])[0]()

    async def win(self) -> None:
        prompt = (await self._get("/trial/prompt"))[0]["text"]
        await asyncio.gather(*(self._call("wait", seconds=0.01 * number) for number in range(3)))
        for text in ("wrong", prompt.split()[1].rstrip(".")):
            output = json.loads((await self._call("say", text=text))["end"])["output"]
        assert output["finished"]
        await self._close()

    async def crash(self) -> None:
        assert (await self._call("crash", text="boom"))["error"] == "boom"
        await self._call("block", seconds=0.01)
        await self._close()

    async def vanish(self) -> None:
        """Leave in the middle of a call, and never come back."""
        body = {"name": "wait", "input": {"seconds": 0.2}}
        async with self._http.stream("POST", "/trial/call", json=body, headers=self._headers) as stream:
            assert await anext(stream.aiter_lines()) == "event: task_id"

    async def overload(self) -> None:
        response = await self._http.post("/trial/call", content=b"x" * 20_000, headers=self._headers)
        assert response.status_code == 413
        self._ledger.too_long += 1
        await self._close()

    async def _open(self) -> None:
        body = {"split": "train", "index": self._random.randrange(2)}
        while (response := await self._http.post("/create", json=body, headers=self._headers)).status_code == 429:
            self._ledger.turned_away += 1
            # Sooner than the server asks for, so that the test does not last.
            await asyncio.sleep(float(response.headers["retry-after"]) / 20)
        assert response.status_code == 200, response.text
        self._ledger.opened += 1

    async def _close(self) -> None:
        response = await self._http.post("/delete", headers=self._headers)
        assert response.status_code == 200, response.text
        self._ledger.closed += 1

    async def _get(self, path: str) -> list[dict[str, str]]:
        response = await self._http.get(path, headers=self._headers)
        assert response.status_code == 200, response.text
        found: list[dict[str, str]] = response.json()
        return found

    async def _call(self, tool: str, **arguments: object) -> dict[str, str]:
        response = await self._http.post("/trial/call", json={"name": tool, "input": arguments}, headers=self._headers)
        assert response.status_code == 200, response.text
        told = events(response.text)
        self._ledger.calls[tool, "error" if "error" in told else "success"] += 1
        return told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_many_mixed_sessions_nothing_is_lost_and_nothing_is_left() -> None:
    limits = {"ENV_MAX_SESSIONS": str(MAX_SESSIONS), "ENV_IDLE_SECONDS": "8", "ENV_MAX_BODY_BYTES": "10000"}
    with trial_server(**limits) as server:
        ledger = asyncio.run(play(server))
        assert ledger.opened == CLIENTS * EPISODES
        until(lambda: server.metric("ors_sessions_open") == 0, "abandoned sessions are reaped", seconds=60)
        assert server.metric("ors_sessions_created_total") == ledger.opened
        assert server.metric('ors_sessions_ended_total{reason="deleted"}') == ledger.closed
        assert server.metric('ors_sessions_ended_total{reason="idle"}') == ledger.opened - ledger.closed
        assert server.metric('ors_requests_refused_total{reason="sessions"}') == ledger.turned_away
        assert server.metric('ors_requests_refused_total{reason="body"}') == ledger.too_long
        for (tool, outcome), count in ledger.calls.items():
            if tool != "wait":  # the calls of clients that vanished finished, too
                line = f'ors_tool_calls_total{{environment="trial",outcome="{outcome}",tool="{tool}"}}'
                assert server.metric(line) == count, line
        assert server.metric("ors_tool_calls_running") == 0
        assert server.client().get("/ready").status_code == 200


async def play(server: TrialServer) -> Ledger:
    ledger = Ledger()
    limits = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncClient(base_url=server.url, timeout=120, trust_env=False, limits=limits) as http,
        asyncio.TaskGroup() as clients,
    ):
        for number in range(CLIENTS):
            clients.create_task(Client(http, number, ledger).play())
    return ledger
