"""The lesson that the starter model's tests teach: the echo environment's wording, and a schedule of seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envs.echo.targets import split_targets
from trainer.warm_start import Lesson, Phase

VERBATIM: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "echo",
        "description": "Submit a string.",
        "parameters": {
            "description": "What the model gives to the tool.",
            "properties": {"text": {"description": "The string to echo back.", "title": "Text", "type": "string"}},
            "required": ["text"],
            "title": "EchoArguments",
            "type": "object",
        },
    },
}
SHORT: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "echo",
        "description": "Submit a string.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The string to echo back."}},
            "required": ["text"],
        },
    },
}
ECHO = Lesson(
    tool="echo", argument="text", prompt="Echo '{target}' to win.", right="match", wrong="no match", tools=[VERBATIM]
)
ECHO_TARGETS = [target for split in ("train", "test") for target in split_targets()[split]]
ECHO_SHORT = replace(ECHO, tools=[SHORT])
BRIEF = (
    Phase("copying", steps=3, rates=(2e-3, 1e-3), enough=None, copies=1.0, whole=False),
    Phase("the habit", steps=2, rates=(1e-3, 1e-3), enough=None, copies=0.2, whole=True),
)
