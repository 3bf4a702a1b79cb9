"""Train language models on Open Reward Standard environments with TRL.

`from trainer import OpenRewardSpec` is the one line that differs from TRL's own integration. Names are imported on
first use, so that importing the package loads neither torch nor the openreward SDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.grpo import EnvGRPOTrainer
    from trainer.ors.mixture import Mixture
    from trainer.ors.spec import OpenRewardSpec

__all__ = ["EnvGRPOTrainer", "Mixture", "OpenRewardSpec"]

_HOMES = {
    "EnvGRPOTrainer": "trainer.grpo",
    "Mixture": "trainer.ors.mixture",
    "OpenRewardSpec": "trainer.ors.spec",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
