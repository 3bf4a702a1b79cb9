"""`ors-env check`: one check, printed, as an exit status."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence

from envs.check.report import Report
from envs.check.runner import run_check


def run(
    url: str,
    environments: Sequence[str] | None,
    api_key: str | None,
    headers: Mapping[str, str] | None = None,
    *,
    as_json: bool,
) -> int:
    """Check a server and print the report.

    Returns:
        0 if no rule of level must failed, else 1.

    Raises:
        envs.check.runner.CheckError: the check could not be made.
    """
    try:
        report = asyncio.run(_check(url, environments, api_key, headers))
    except asyncio.CancelledError:  # told to stop; the sessions are closed by now
        return 130
    print(report.as_json() if as_json else report.as_text())
    return 0 if report.ok else 1


async def _check(
    url: str, environments: Sequence[str] | None, api_key: str | None, headers: Mapping[str, str] | None
) -> Report:
    task = asyncio.current_task()
    assert task is not None
    # SIGINT cancels this task by itself; SIGTERM, as a container or CI sends it, must not leave sessions behind either.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run_check(url, environments=environments, api_key=api_key, headers=headers)
