"""What trainer/grpo.py relies on in TRL beyond its documentation. Each test pins one thing, and says what moved.

All look at one step of TRL's own trainer with plain Python environments: nothing of this project runs in it but the
scripted model.
"""

from __future__ import annotations

import copy
import inspect
import logging
import subprocess
import sys
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer
from trl.chat_template_utils import parse_response
from trl.generation.vllm_generation import VLLMGeneration

from benchmarks.scripted import arguments, model, scripted, tokenizer, tool_call
from tests.servers import ROOT
from tests.trainer.commands import told
from trainer import grpo
from trainer.tool_calls import call_opening


class Counting:
    """A plain environment: `up` says how often it was called."""

    made: list[Counting] = []  # noqa: RUF012 - of the class, on purpose

    def __init__(self) -> None:
        self.made.append(self)
        self.rows: list[dict[str, Any]] = []
        self.calls: list[str] = []

    def reset(self, **row: Any) -> str:
        self.rows.append(row)
        return "Count."

    def up(self, by: str) -> str:
        """Count.

        Args:
            by: how much
        """
        self.calls.append(by)
        return f"{len(self.calls)}"


class Other(Counting):
    made: list[Counting] = []  # noqa: RUF012


class Seen(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer, looked at."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.inputs = inputs
        return super()._generate_and_score_completions(inputs)

    def _generate(self, prompts: Any) -> Any:
        self.prompts, self.prompts_before = prompts, copy.deepcopy(prompts)
        self.rewarded = None
        generated = super()._generate(prompts)
        assert self.rewarded is None
        return generated

    def _tool_call_loop(self, prompts: Any, prompt_ids: Any, completion_ids: Any, completions: Any, *rest: Any) -> Any:
        self.first_messages = [messages[-1] for messages in completions]
        self.loop_completions = completions
        self.environments_in_loop = list(self.environments)
        self.prompt_texts = [tokenizer().decode(ids) for ids in prompt_ids]
        return super()._tool_call_loop(prompts, prompt_ids, completion_ids, completions, *rest)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        self.rewarded_inputs, self.rewarded, self.rewarded_prompts = inputs, completions, prompts
        self.rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._log_metric("pinned", 0.25)
        self._log_metric("taken back", 0.25)
        self._pending_metrics.pop("taken back")
        return self.rewards


class Keeps(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self.records = records

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def script(rollout: int, turn: int) -> str:
    both = tool_call("up", by=f"{rollout}a") + "\n" + tool_call("up", by=f"{rollout}b")
    return both if turn == 0 else tool_call("up", by=f"{rollout}c") if turn == 1 else "done"


SCHEMA = {
    "type": "function",
    "function": {"name": "up", "description": "Verbatim.", "parameters": {"type": "object", "minProperties": 1}},
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    names = ["one", "other"]
    rows = {"prompt": [[{"role": "user", "content": ""}]] * 2, "environment": names, "task_index": [3, 4]}
    with pytest.warns(UserWarning, match="^You are using 'environment_factory'"):
        made = scripted(Seen, script)(
            model=model(),
            processing_class=tokenizer(),
            args=arguments(tmp_path_factory.mktemp("run"), 8),
            train_dataset=Dataset.from_dict(rows),
            environment_factory={"one": Counting, "other": Other},
            reward_funcs=lambda environments, **_: [None if e.calls[0].startswith("1") else 1.0 for e in environments],
        )
    made._env_tools["one"] = [SCHEMA]
    made.told = []
    logger, handler = logging.getLogger("trl.trainer.grpo_trainer"), Keeps(made.told)
    kept = list(logger.filters)  # another test may have made a trainer that filters
    logger.filters.clear()
    logger.addHandler(handler)
    try:
        made.train()
    finally:
        logger.removeHandler(handler)
        logger.filters.extend(kept)
    return made


def test_each_environment_has_a_pool_that_holds_the_instances_of_a_batch_in_its_order(seen: Any) -> None:
    assert list(seen._environment_pool) == ["one", "other"], "_environment_pool is no more by the factory's name"
    batch = [(name, environment) for name, environment in zip(seen._batch_environments, seen.environments, strict=True)]
    for name, pool in seen._environment_pool.items():
        taken = [environment for of, environment in batch if of == name]
        assert pool == taken, "TRL takes environments from its pool in another order: _prepare_rollouts must follow it"
    assert len(Counting.made) == len(Other.made) == 4, "TRL makes more environments than rollouts"


def test_a_batch_is_its_inputs_in_order_with_the_environment_in_a_column(seen: Any) -> None:
    assert [row["environment"] for row in seen.inputs] == seen._batch_environments, "environments left the rows' order"
    resets = [environment.rows[-1] for environment in seen.environments]
    assert [row["task_index"] for row in resets] == [row["task_index"] for row in seen.inputs], "reset got other rows"
    assert all("environment" not in row for row in resets), "reset is given `environment` now: Rollout.reset ignores it"
    assert seen._multi_environment is True, "_multi_environment does not tell a dict of factories any more"
    assert set(seen.environment_factories) == {"one", "other"}, "environment_factories is no dict of factories any more"


def test_tools_of_an_environment_may_be_schemas_and_are_shown_as_they_are(seen: Any) -> None:
    assert seen._standalone_tools == [], "_standalone_tools is not the list of the trainer's own tools any more"
    for name, text in zip(seen._batch_environments, seen.prompt_texts, strict=True):
        shown = "Verbatim." in text and '"minProperties": 1' in text
        assert shown == (name == "one"), "prompts are not rendered with _env_tools any more, or schemas are rewritten"


def test_the_tool_loop_is_given_one_list_that_holds_every_rollouts_newest_message(seen: Any) -> None:
    names = list(inspect.signature(GRPOTrainer._tool_call_loop).parameters)[:5]
    assert names == ["self", "prompts", "prompt_ids", "completion_ids", "completions"], "_tool_call_loop's arguments"
    assert all(message["tool_calls"] for message in seen.first_messages), "messages have no `tool_calls` yet"
    assert seen.loop_completions is seen.rewarded, "the loop has its own `completions`: dispatch sees nothing new"
    roles = [message["role"] for message in seen.rewarded[0]]
    assert roles == ["assistant", "tool", "tool", "assistant", "tool", "assistant"], "messages are kept another way"
    assert seen.environments_in_loop == seen.environments, "environments are not set before the loop any more"


def test_generation_is_given_the_prompts_as_they_are_rewarded_and_leaves_them_alone(seen: Any) -> None:
    assert list(inspect.signature(GRPOTrainer._generate).parameters) == ["self", "prompts"], "_generate's arguments"
    assert [prompt[-1]["content"] for prompt in seen.prompts] == ["Count."] * 8, "prompts lack what reset() gave"
    assert seen.prompts == seen.prompts_before, "_generate adds to the prompts it is given: a crash keeps them so"
    assert seen.prompts == seen.rewarded_prompts, "rewards are given other prompts than _generate"


def test_a_generation_is_held_in_batches_which_the_count_of_those_served_is_for(seen: Any) -> None:
    assert seen._step == 1, "_step does not count the batches that were trained on any more"
    assert len(seen._buffered_inputs) == seen.args.steps_per_generation == 1, "_buffered_inputs is cut another way"
    assert seen.num_iterations == 1, "num_iterations is no attribute any more"
    source = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert "generate_every = self.args.steps_per_generation * self.num_iterations" in source
    assert "if self._step % generate_every == 0 or self._buffered_inputs is None" in source, "when TRL generates"
    assert "self._buffered_inputs[self._step % self.args.steps_per_generation]" in source, "which batch TRL trains on"
    assert list(inspect.signature(GRPOTrainer._save_rng_state).parameters) == ["self", "output_dir"]
    assert list(inspect.signature(GRPOTrainer._load_rng_state).parameters) == ["self", "checkpoint"]


def test_generation_is_told_how_many_rollouts_share_a_prompt() -> None:
    names = list(inspect.signature(GRPOTrainer._generate_single_turn).parameters)[:5]
    expected = ["self", "prompt_ids", "images", "multimodal_fields", "num_generations"]
    assert names == expected, "_generate_single_turn's arguments"
    shared = inspect.getsource(VLLMGeneration.generate)
    assert "all_prompts[::num_generations]" in shared, "a vLLM server is given prompts in another way"


def test_calls_are_made_once_each_in_their_order_on_the_rollouts_own_environment(seen: Any) -> None:
    calls = [environment.calls for environment in seen.environments]
    expected = [[f"{rollout}{call}" for call in "abc"] for rollout in range(8)]
    assert calls == expected, "TRL makes a rollout's calls in another order or more often: Rollout must follow"
    function = seen.first_messages[0]["tool_calls"][0]
    assert function["type"] == "function" and set(function["function"]) >= {"name", "arguments"}, "a call's shape"
    assert isinstance(function["function"]["arguments"], dict), "arguments are not parsed into a dict any more"


def test_a_call_that_cannot_be_parsed_is_text_that_begins_as_the_response_template_says(seen: Any) -> None:
    opening = call_opening(seen._tokenizer.response_template)
    assert opening is not None, "TRL's response templates say in another way what a tool call begins with"
    broken = '<tool_call>\n{"name": "up"\n</tool_call><|im_end|>'
    for text, is_call in ((broken, True), ("no call<|im_end|>", False)):
        parsed = parse_response(seen._tokenizer, seen._tokenizer(text)["input_ids"], prefix=[], tools=[SCHEMA])
        assert not parsed.get("tool_calls") and bool(opening.search(parsed["content"])) == is_call


def test_rewards_come_back_by_process_and_rollout_with_nan_for_none(seen: Any) -> None:
    assert tuple(seen.rewards.shape) == (8, 1), "_calculate_rewards gives another shape than (all rollouts, functions)"
    nans = seen.rewards[:, 0].isnan().tolist()
    assert nans == [at == 1 for at in range(8)], "a reward that is None is not NaN, or rollouts changed their order"
    assert isinstance(seen.reward_weights, torch.Tensor) and seen.reward_weights.shape == (1,), "reward_weights"
    names = list(inspect.signature(GRPOTrainer._calculate_rewards).parameters)
    assert names == ["self", "inputs", "prompts", "completions", "completion_ids_list"], "_calculate_rewards' arguments"


def test_metrics_logged_in_a_step_are_in_its_log(seen: Any) -> None:
    assert seen.state.log_history[0]["pinned"] == 0.25, "_log_metric brings no value into the log any more"
    assert "taken back" not in seen.state.log_history[0], "_pending_metrics does not hold what _log_metric was given"
    assert isinstance(seen._metrics["eval"], dict), "_metrics has no dict of an evaluation's any more"
    assert "loss" in seen.state.log_history[0], "a step's log has no `loss`: log() tells steps by it"


def test_names_that_are_read_or_overridden_exist(seen: Any) -> None:
    for name in ("_generate_single_turn", "compute_loss", "_prepare_inputs", "training_step", "log", "evaluate"):
        assert callable(getattr(GRPOTrainer, name, None)), f"GRPOTrainer has no {name} any more: time/… relies on it"
    rendering = list(inspect.signature(GRPOTrainer._get_tool_suffix_ids).parameters)
    assert rendering == ["self", "tool_messages"], "tool messages are tokenized by another method, or are not all of it"
    for name in ("eos_token_ids", "_tokenizer", "max_tool_calling_iterations", "num_generations", "environments"):
        assert hasattr(seen, name), f"GRPOTrainer has no attribute {name} any more"
    assert set(seen.eos_token_ids) == {tokenizer().eos_token_id}, "eos_token_ids are not what ends a message any more"


def test_an_unscored_row_is_told_by_the_logger_and_in_the_words_that_are_filtered(seen: Any) -> None:
    assert seen.told, "TRL says nothing of an unscored row through the logger trl.trainer.grpo_trainer any more"
    unfiltered = [record.msg for record in seen.told if grpo._NotTheUnscored().filter(record)]
    assert not unfiltered, "TRL words its warning of an unscored row another way"


def test_a_tied_weight_is_missing_in_a_checkpoint_and_warned_of_by_the_method_that_is_overridden(seen: Any) -> None:
    weights = {key: value for key, value in seen.model.state_dict().items() if key != "lm_head.weight"}
    loaded = seen.model.load_state_dict(weights, False)
    assert loaded.missing_keys == list(seen.model.all_tied_weights_keys) == ["lm_head.weight"]
    with told("transformers.trainer") as said:
        seen._issue_warnings_after_load(loaded)
    assert said, "transformers warns of a tied weight no more: the override in EnvGRPOTrainer can go"


def test_another_version_of_trl_is_refused_at_import_with_the_range_that_works() -> None:
    versions = ("1.15.2", "1.17.0.dev0", "1.17.0")
    code = f"""
import trl
for trl.__version__ in {versions}:
    try:
        import trainer.grpo
    except ImportError as error:
        print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [
        f"trainer.grpo works with trl >=1.16,<1.17, and trl {version} is installed: pip install 'trl>=1.16,<1.17'"
        for version in versions
    ]
