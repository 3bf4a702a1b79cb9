"""What an environment says, read from the JSON it sent: the text of blocks, the outcome of a tool call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainer.ors.errors import EnvironmentFailure, ModelError, ToolRefused
from trainer.ors.rewards import as_score
from trainer.ors.text import encodable

_REFUSALS: dict[str, ModelError] = {
    "not_found": "unknown_tool",
    "input_validation": "bad_arguments",
    "bad_input_shape": "bad_arguments",
    "episode_finished": "after_end",
}


@dataclass(frozen=True)
class Outcome:
    """What one tool call gave: the text for the model, the reward (None: not scored), whether the episode is over."""

    text: str
    reward: float | None
    finished: bool
    metadata: dict[str, Any] | None


def blocks_text(blocks: Any) -> str:
    """The text of a prompt or a result: text blocks joined by line breaks; what is not text leaves a note."""
    parts = []
    for block in blocks or []:
        if block.get("type") == "text":
            if block.get("text"):
                parts.append(str(block["text"]))
        else:
            parts.append(f"[{block.get('mimeType') or block.get('type')}: not shown, this trainer reads text]")
    text: str = encodable("\n".join(parts))
    return text


def outcome(result: Any, tool: str, name: str) -> Outcome:
    """What a call's result says. Raises ToolRefused for the model's mistakes, EnvironmentFailure for what is none."""
    try:
        if not result["ok"]:
            text = str(result["error"])
            reason = result.get("reason") or ("input_validation" if "validation" in text.lower() else "not_found")
            if reason not in _REFUSALS:
                raise EnvironmentFailure("crash", f"{name}: tool {tool!r}: {text}")
            raise ToolRefused(_REFUSALS[reason], encodable(text))
        output = result["output"]
        reward, metadata = output.get("reward"), output.get("metadata")
        score = as_score(reward) if isinstance(reward, int | float) else None
        text = blocks_text(output.get("blocks")) or "(no output)"
        return Outcome(text, score, bool(output.get("finished")), metadata if isinstance(metadata, dict) else None)
    except (KeyError, TypeError, AttributeError):
        raise EnvironmentFailure("crash", f"{name}: tool {tool!r} answered outside the standard") from None
