"""A trainer whose model says what a script says: TRL's loop, chat template and parser at work, without a model's cost.

For measurements and tests of what happens between the trainer and environments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Script = Callable[[int, int], str]
"""What rollout number `i` of a batch says in its turn number `t`, both from 0."""


def tool_call(name: str, **arguments: Any) -> str:
    """An assistant message that calls a tool, in the words of Qwen's chat template."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@cache
def tokenizer() -> Any:
    """A byte-level tokenizer with TRL's own Qwen3 template, which is prefix-preserving."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen3_instruct_2507_chat_template

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={char: at for at, char in enumerate(alphabet)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=bytes_only, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.add_tokens(["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"])
    fast.chat_template = qwen3_instruct_2507_chat_template
    return fast


def model() -> Any:
    """The smallest model that TRL will train."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    words = tokenizer()
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(words),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            max_position_embeddings=65536,
            pad_token_id=words.pad_token_id,
            eos_token_id=words.eos_token_id,
            bos_token_id=None,
            tie_word_embeddings=True,
        )
    )


def scripted(trainer_class: type, script: Script) -> type:
    """A subclass of a GRPOTrainer class whose generations follow the script; an empty text ends a rollout."""

    class Scripted(trainer_class):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            self._turns: dict[int, int] = {}
            self._sequences: list[Sequence[int]] = []
            return super()._generate_and_score_completions(inputs)

        def _generate_single_turn(self, prompt_ids: Sequence[Sequence[int]], *args: Any, **kwargs: Any) -> Any:
            if not self._sequences:
                self._sequences = [list(ids) for ids in prompt_ids]
                rollouts = list(range(len(prompt_ids)))
            else:
                rollouts = self._still_there(prompt_ids)
            said = []
            for rollout, ids in zip(rollouts, prompt_ids, strict=True):
                turn = self._turns.get(rollout, 0)
                self._turns[rollout] = turn + 1
                spoken = tokenizer()(script(rollout, turn) + "<|im_end|>")["input_ids"]
                self._sequences[rollout] = [*ids, *spoken]
                said.append(spoken)
            return said, None

        def _still_there(self, prompt_ids: Sequence[Sequence[int]]) -> list[int]:
            """Which rollouts these are, told by what they begin with; equal beginnings are taken in their order."""
            found: list[int] = []
            for ids in prompt_ids:
                start = found[-1] + 1 if found else 0
                match = (at for at in range(start, len(self._sequences)) if self._begins(ids, self._sequences[at]))
                found.append(next(match))
            return found

        @staticmethod
        def _begins(ids: Sequence[int], beginning: Sequence[int]) -> bool:
            return len(ids) > len(beginning) and list(ids[: len(beginning)]) == list(beginning)

    return Scripted


def arguments(output_dir: Path, rollouts: int, **more: Any) -> Any:
    """GRPOConfig of a run on this machine's CPU that keeps nothing."""
    from trl import GRPOConfig

    settings: dict[str, Any] = {
        "output_dir": str(output_dir),
        "per_device_train_batch_size": rollouts,
        "num_generations": min(4, rollouts),
        "max_steps": 1,
        "max_completion_length": 60_000,
        "report_to": "none",
        "logging_steps": 1,
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "activation_checkpointing": False,
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
    }
    return GRPOConfig(**{**settings, **more})
