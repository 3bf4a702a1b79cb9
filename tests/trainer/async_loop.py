"""The rollout loop of TRL's AsyncGRPOTrainer without vLLM: in place of a server's, the turns are a script's."""

from __future__ import annotations

from typing import Any

from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop

from benchmarks.scripted import tokenizer, tool_call


class ScriptedLoop(_AsyncRolloutLoop):  # type: ignore[misc]
    """Calls `note` once with a reward of 0.75 and is done. Spawned by name, so it lives in a module."""

    async def _generate_one_turn(self, prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        called = "noted mine" in tokenizer().decode(prompt_ids)
        said = "done" if called else tool_call("note", text="mine", reward=0.75, finished=True)
        ids: list[int] = tokenizer()(said + "<|im_end|>")["input_ids"]
        return ids, [0.0] * len(ids)


def play(factory: Any, row: dict[str, Any], answers: Any) -> None:
    """One episode with an adapter, as a worker's process plays it."""
    environment = factory()
    prompt = environment.reset(**row)
    result = environment.note(text="mine", reward=0.5)
    score = environment.get_reward() if hasattr(environment, "get_reward") else None
    answers.put((prompt, result, environment.rewards, score))
