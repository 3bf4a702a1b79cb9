"""`ors-env list`: every environment with its splits, their sizes, its tools and what it is about."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from envs import catalog


def show(names: Sequence[str], *, as_json: bool) -> int:
    """Print what the named environments offer; return 1 if one of them cannot be loaded, else 0."""
    found, broken = [], {}
    for name in names:
        try:
            found.append(_describe(name))
        except catalog.CatalogError as error:
            broken[name] = str(error)
    if as_json:
        print(json.dumps({"environments": found, "broken": broken}, indent=2))
    else:
        for entry in found:
            splits = ", ".join(f"{split['name']} {split['num_tasks']:,}" for split in entry["splits"])
            final = [f"{entry['terminal_tool']} (takes the final message)"] if entry["terminal_tool"] else []
            tools = ", ".join([*entry["tools"], *final])
            summary = f"  {entry['summary']}\n" if entry["summary"] else ""
            print(f"{entry['name']}\n{summary}  splits  {splits}\n  tools   {tools}")
    for name, reason in broken.items():
        print(f"ors-env: {name} cannot be loaded: {reason}", file=sys.stderr)
    return 1 if broken else 0


def _describe(name: str) -> dict[str, Any]:
    from openreward.environments import Split
    from openreward.environments.utils import run_user_callable

    environment = catalog.load(name)

    async def sizes() -> list[dict[str, Any]]:
        splits = [split.name if isinstance(split, Split) else split for split in environment.list_splits()]
        return [
            {"name": split, "num_tasks": int(await run_user_callable(environment.num_tasks, split))} for split in splits
        ]

    with catalog.own_code(name):
        splits = asyncio.run(sizes())
        listed = environment.list_tools()
    card = catalog.card(name)
    if card.problem:
        print(f"ors-env: warning: {card.problem}", file=sys.stderr)
    return {
        "name": name,
        "summary": card.summary,
        "splits": splits,
        "tools": [tool.name for tool in listed.tools],
        "terminal_tool": listed.terminal_tool.name if listed.terminal_tool else None,
    }
