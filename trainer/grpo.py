"""EnvGRPOTrainer: TRL's GRPOTrainer, with the environments' input and output launched together.

TRL resets environments and runs tool calls one rollout after the other. Here the sessions of a batch are opened
together, and the calls of a turn are sent off together when the first of them is made; TRL's own loop then finds each
result ready or waits for it. This is the only file that touches TRL's private parts;
tests/trainer/test_trl_internals.py pins each.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import trl
from accelerate.utils import gather_object
from datasets import Dataset
from packaging.specifiers import SpecifierSet
from trl import GRPOTrainer

from trainer import generations
from trainer.episodes import Ending, Episode, RolloutLog, Score, ending, metrics
from trainer.ors.errors import ConfigurationError
from trainer.ors.rewards import as_score
from trainer.ors.rollout import Rollout
from trainer.ors.text import encodable
from trainer.timing import StepClock
from trainer.tool_calls import call_opening, made_calls, sent_calls, take_answers

TRL_RANGE = ">=1.16,<1.17"
if not SpecifierSet(TRL_RANGE).contains(trl.__version__, prereleases=True):
    raise ImportError(
        f"trainer.grpo works with trl {TRL_RANGE}, and trl {trl.__version__} is installed: pip install 'trl{TRL_RANGE}'"
    )


class _NotTheUnscored(logging.Filter):
    """TRL prints the whole row of a rollout that nothing scored, at every step. `env/scored` says it shorter."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "All reward functions returned None" not in str(record.msg)


_NOT_THE_UNSCORED = _NotTheUnscored()  # one for all trainers of a process: a logger takes the same filter once


class EnvGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """A GRPOTrainer for environments made by `OpenRewardSpec.environment_factory`. Takes the same arguments, and:

    Args:
        rollout_log: File that every rollout is appended to, a line each; None for none.
        model_card: Whether TRL writes its model card, README.md, into the output folder with each checkpoint.

    Beside TRL's metrics it logs those of `trainer.episodes.metrics`, where the time of a step went as `time/…` (seconds
    a step) and `env_wait`, the share of it that was spent waiting for environments. The model is shown the tools' JSON
    Schemas as the server has them, nested objects, enums and constraints included.
    """

    def __init__(self, *args: Any, rollout_log: Path | None = None, model_card: bool = True, **kwargs: Any) -> None:
        self._model_card = model_card
        self.phase = "train"  # what rollouts.jsonl says of an evaluation: before or after training
        self._rollout_log = RolloutLog(rollout_log) if rollout_log is not None else None
        self._clock = StepClock()
        self._episodes: list[Episode] = []  # of the last batch
        self._under_way: tuple[Any, Any, Any] | None = None  # prompts, completions and their tokens, not yet on record
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are using 'environment_factory'")
            super().__init__(*args, **kwargs)
        logging.getLogger("trl.trainer.grpo_trainer").addFilter(_NOT_THE_UNSCORED)
        for name, pool in (self._environment_pool if self.environment_factories else {}).items():
            if isinstance(pool[0], Rollout):
                self._env_tools[name] = [*self._standalone_tools, *pool[0]._schemas]
        for dataset in (self.train_dataset, self.eval_dataset) if self._multi_environment else ():
            self._check_environments(dataset)

    def _check_environments(self, dataset: Any) -> None:
        """A row that names an unknown environment would stop the run at the step that draws it; it is found here."""
        for part in dataset.values() if isinstance(dataset, dict) else [dataset]:
            if isinstance(part, Dataset) and "environment" in part.column_names:  # others are read as they are drawn
                unknown = sorted(set(map(str, part.unique("environment"))) - set(self.environment_factories))
                if unknown:
                    known = ", ".join(map(str, self.environment_factories))
                    raise ConfigurationError(f"a row is of environment {unknown[0]!r}; the factories are for: {known}")

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        rollouts = self._prepare_rollouts(inputs)
        try:
            return super()._generate_and_score_completions(inputs)  # type: ignore[no-any-return]
        except BaseException as crash:
            self._keep_interrupted(crash)
            raise
        finally:
            for rollout in rollouts:
                rollout._close()

    def _prepare_rollouts(self, inputs: Sequence[dict[str, Any]]) -> list[Rollout]:
        """Begin to open the sessions of a batch, on the instances that TRL is about to take from its pools."""
        rollouts = []
        used: Counter[str | None] = Counter()
        for row in inputs:
            name = row.get("environment") if self._multi_environment else None
            if self.environment_factories is None or name not in self.environment_factories:
                continue  # TRL says what is wrong with an unknown name
            pool = self._environment_pool[name]
            if used[name] == len(pool):
                pool.append(self.environment_factories[name]())
            rollout = pool[used[name]]
            used[name] += 1
            if isinstance(rollout, Rollout):
                rollout._prepare(row)
                rollouts.append(rollout)
        return rollouts

    def _generate(self, prompts: Any) -> Any:
        self._under_way = prompts, [[] for _ in prompts], None
        return super()._generate(prompts)

    def _tool_call_loop(self, prompts: Any, prompt_ids: Any, completion_ids: Any, completions: Any, *rest: Any) -> Any:
        sent: dict[int, Any] = {}  # messages whose calls are on their way, by identity; held, so that no id comes twice

        def dispatch() -> None:
            for rollout, messages in zip(self.environments or [], completions, strict=False):
                message = messages[-1]
                if isinstance(rollout, Rollout) and message.get("tool_calls") and id(message) not in sent:
                    sent[id(message)] = message
                    rollout._start(sent_calls(rollout, message))

        if self._under_way is not None:
            self._under_way = self._under_way[0], completions, None
        rollouts = [rollout for rollout in self.environments or [] if isinstance(rollout, Rollout)]
        for rollout in rollouts:
            rollout._dispatch = dispatch
        try:
            return super()._tool_call_loop(prompts, prompt_ids, completion_ids, completions, *rest)
        finally:  # a call that a reward function makes is its own, not the turn's that TRL left at its limit
            for rollout in rollouts:
                rollout._dispatch = None

    def _get_tool_suffix_ids(self, tool_messages: Any) -> Any:
        # A message has the name that the model called, and what the trainer's own tools gave.
        return super()._get_tool_suffix_ids(encodable(tool_messages))

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        self._under_way = prompts, completions, completion_ids_list
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        first = self.accelerator.process_index * len(prompts)
        mine = rewards[first : first + len(prompts)]
        totals = (mine * self.reward_weights.to(mine.device)).nansum(dim=1).float().cpu().numpy()
        unscored = mine.isnan().all(dim=1).tolist()
        # TRL's rewards have single precision: as a double, 0.9 would be 0.89999998, no success where it is one at 0.9.
        scores = [None if none else as_score(float(str(total))) for none, total in zip(unscored, totals, strict=True)]
        self._under_way = None
        self._keep_episodes(prompts, completions, completion_ids_list, scores)
        if self._episodes:
            self._pending_metrics.pop("env/scored", None)  # a reward function's of itself; this is of all of them
            for name, values in metrics(self._episodes, by_environment=self._multi_environment).items():
                for value in values:
                    self._log_metric(name, value)
        return rewards

    def _keep_interrupted(self, crash: BaseException) -> None:
        """Keep what was played of a batch that came to no rewards. What goes wrong here does not hide the crash."""
        batch, self._under_way = self._under_way, None
        if batch is None:
            return
        prompts, completions, completion_ids_list = batch
        try:
            for rollout in self.environments or []:
                if isinstance(rollout, Rollout):
                    take_answers(rollout)
            self._keep_episodes(prompts, completions, completion_ids_list, [None] * len(prompts))
        except Exception as error:
            crash.add_note(f"the rollouts of this batch could not be kept: {type(error).__name__}: {error}")

    def _keep_episodes(
        self, prompts: Any, completions: Any, completion_ids_list: Any, scores: Sequence[float | None]
    ) -> None:
        """Keep what was played, and write it down, before anything else can go wrong. No tokens: it was interrupted."""
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        others, limit = {tool.__name__ for tool in self._standalone_tools}, self.max_tool_calling_iterations
        opening = call_opening(getattr(self._tokenizer, "response_template", None))
        episodes = []
        for at, rollout in enumerate(self.environments or []):
            if not isinstance(rollout, Rollout):
                continue
            completion, ids = completions[at], completion_ids_list[at] if completion_ids_list is not None else None
            cut = not ids or ids[-1] not in ends
            why: Ending = "interrupted" if ids is None else ending(rollout, completion, cut, limit)
            calls = made_calls(rollout, completion, others=others, turns_limit=limit, opening=opening, cut=cut)
            episodes.append(Episode(rollout, prompts[at], completion, calls, scores[at], why))
            self._clock.add("open", rollout._waited_open)
            self._clock.add("calls", rollout._waited_calls)
        self._episodes = episodes
        if episodes and self._rollout_log is not None:
            mode = "train" if self.model.training else "eval"
            step = self.state.global_step + (1 if mode == "train" else 0)
            self._rollout_log.write(episodes, step=step, mode=mode, phase=self.phase)

    def _generate_single_turn(
        self, prompt_ids: Any, images: Any, multimodal_fields: Any, num_generations: int, *args: Any, **kwargs: Any
    ) -> Any:
        # A vLLM server is given the first prompt of so many and generates for all from it. Prompts are the
        # environment's: a session that did not open has none of the task, and its group would play without one.
        each = 1 if self.environments else num_generations
        with self._clock.timed("generate"):
            return super()._generate_single_turn(prompt_ids, images, multimodal_fields, each, *args, **kwargs)

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        with self._clock.timed("forward"):
            return super().compute_loss(*args, **kwargs)

    def _prepare_inputs(self, *args: Any, **kwargs: Any) -> Any:
        with self._clock.timed("prepare"):
            return super()._prepare_inputs(*args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        self._clock.begin(self.state.global_step)
        with self._clock.timed("training_step"):
            return super().training_step(*args, **kwargs)

    def _serving(self) -> tuple[int, ...]:
        """What says how a generation is cut into the batches of the steps that it serves."""
        args = self.args
        shares = self.accelerator.num_processes, args.per_device_train_batch_size, self.num_generations
        return (*shares, args.gradient_accumulation_steps, args.steps_per_generation, self.num_iterations)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        served = self._step % (self.args.steps_per_generation * self.num_iterations)
        if served:
            process = self.accelerator.process_index
            generations.keep(Path(output_dir), process, self._serving(), served, self._buffered_inputs)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        super()._load_rng_state(checkpoint)
        if checkpoint is not None:
            here = self.accelerator.process_index, self._serving(), self.accelerator.device
            found = generations.kept(Path(checkpoint), *here)
            if all(gather_object([found is not None])) and found is not None:  # all processes generate, or none
                self._step, self._buffered_inputs = found

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's log, with the times of the steps since the last one."""
        if self.model.training and "loss" in logs:
            logs |= self._clock.report(self.state.global_step)
        super().log(logs, start_time)

    def score(
        self,
        dataset: Any,
        rollouts_per_task: int,
        *,
        greedy: bool = False,
        seed: int = 0,
        phase: str = "eval",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Score]:
        """Play the tasks of a dataset, without learning from them and without touching the random state of training.

        Args:
            dataset: Rows as training takes them; every process of a distributed run is given all of them.
            rollouts_per_task: Episodes of each task.
            greedy: Take the likeliest token instead of sampling as in training.
            seed: Of the sampling.
            phase: What rollouts.jsonl says of these rollouts.
            progress: Told the rollouts done and their number, after each batch.

        Returns:
            One score a rollout, those of a task side by side, tasks in their order.
        """
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        rows = [row for row in dataset for _ in range(rollouts_per_task)]
        share = max(self.args.per_device_eval_batch_size // rollouts_per_task, 1) * rollouts_per_task
        batch = share * world
        scores: list[Score] = []
        with self._evaluating(rollouts_per_task, greedy, seed + rank, phase):
            for start in range(0, len(rows), batch):
                part = rows[start : start + batch]
                # Every process plays a full share, so that all meet in the collectives; what is too much is dropped.
                part += [rows[-1]] * (batch - len(part)) if world > 1 else []
                self._generate_and_score_completions(part[rank * share : (rank + 1) * share])
                mine = [Score(e.environment.task, e.reward, e.environment.failure is not None) for e in self._episodes]
                scores += gather_object(mine)
                if progress is not None:
                    progress(min(start + batch, len(rows)), len(rows))
        return scores[: len(rows)]

    @contextmanager
    def _evaluating(self, generations: int, greedy: bool, seed: int, phase: str) -> Iterator[None]:
        samplers = [s for s in (getattr(self, "generation_config", None), getattr(self, "vllm_generation", None)) if s]
        kept = self.num_generations_eval, self.phase, [sampler.top_k for sampler in samplers], self.model.training
        self.num_generations_eval: int = generations
        self.phase = phase
        for sampler in samplers if greedy else ():
            sampler.top_k = 1
        self.model.eval()
        own = [self.accelerator.device] if self.accelerator.device.type == "cuda" else []  # others' are not ours
        try:
            with self._clock.paused(), torch.random.fork_rng(own):
                torch.manual_seed(seed)
                yield
        finally:
            self.num_generations_eval, self.phase, top_ks, training = kept
            for sampler, top_k in zip(samplers, top_ks, strict=True):
                sampler.top_k = top_k
            self.model.train(training)
            self._metrics["eval"].clear()
            self._pending_metrics.clear()

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """A weight that is tied to another is in no checkpoint, and nothing to warn of."""
        tied = getattr(self.model, "all_tied_weights_keys", None) or {}
        missing = [key for key in load_result.missing_keys if key not in tied]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """TRL's, where it is wanted."""
        if self._model_card:
            super().create_model_card(*args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's evaluation; its time is not counted as a training step's."""
        with self._clock.paused():
            return super().evaluate(*args, **kwargs)
