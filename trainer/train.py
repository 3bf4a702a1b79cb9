"""One run from its configuration to its report."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from trainer.callbacks import Journal, ShowProgress, Stopper, StopRequested
from trainer.evaluate import Evaluation, evaluate
from trainer.ors import loop
from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.ors.mixture import Mixture
from trainer.report import ReportError, write_report
from trainer.run import RunFolder, describe

if TYPE_CHECKING:
    from datasets import Dataset

    from trainer.config import Config, EnvironmentConfig
    from trainer.grpo import EnvGRPOTrainer


@dataclass(frozen=True)
class Environments:
    """What a trainer takes of environments: the three slots, the tasks to evaluate on, and facts for the record."""

    train_dataset: Dataset
    environment_factory: Any
    reward_funcs: Any
    eval_dataset: Dataset | None
    facts: list[dict[str, Any]]

    @property
    def all_tasks(self) -> list[dict[str, Any]]:
        """The rows to train on and those to evaluate on."""
        return [*self.train_dataset, *(self.eval_dataset or ())]


def environments(config: Config) -> Environments:
    """Ask the environments for their tasks and tools. Raises ORSError where one cannot give them."""
    entries = config.environments
    specs = [entry.spec() for entry in entries]
    for spec in specs:
        _await(spec, config.run.wait)
    weights = [entry.weight for entry in entries]
    if any(weight is None for weight in weights) and any(weight is not None for weight in weights):
        raise ConfigurationError("give every environment a weight, or none")
    given = None if weights[0] is None else [float(weight or 0) for weight in weights]
    mixture = Mixture(specs, weights=given, size=config.run.mixture_size, seed=config.grpo.seed)
    single = len(specs) == 1 and given is None
    train = specs[0].train_dataset if single else mixture.train_dataset
    factory = specs[0].environment_factory if single else mixture.environment_factory
    reward = specs[0].reward_funcs if single else mixture.reward_funcs
    facts = [
        {
            "name": spec.name,
            "url": spec.address,
            "env_name": entry.env_name,
            "split": spec.split,
            "num_tasks": len(spec.train_dataset),
        }
        for spec, entry in zip(mixture.specs, entries, strict=True)
    ]
    return Environments(train, factory, reward, _held_out(config, mixture), facts)


def _await(spec: Any, seconds: float) -> None:
    """Wait for an environment that does not answer yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            _ = spec.name
            return
        except EnvironmentFailure as failure:
            if failure.kind not in ("unreachable", "timeout"):
                raise
            if time.monotonic() >= deadline:
                raise EnvironmentFailure(failure.kind, f"{failure}; gave up after {seconds:g} s") from None
            time.sleep(min(1.0, max(deadline - time.monotonic(), 0.05)))


def _held_out(config: Config, mixture: Mixture) -> Dataset | None:
    def split_of(entry: EnvironmentConfig) -> str | None:
        return entry.eval_split or config.run.eval_split

    evaluated = [
        spec.of_split(split, num_tasks=entry.eval_tasks or config.run.eval_tasks)
        for spec, entry in zip(mixture.specs, config.environments, strict=True)
        if (split := split_of(entry)) is not None
    ]
    return Mixture(evaluated, seed=0).train_dataset if evaluated else None


def run(config: Config, console: Console) -> int:
    """Train as configured and leave the run folder; the exit status of the command.

    Args:
        config: What to do.
        console: Where people are told.

    Raises:
        ConfigurationError: before anything was done, where something asked for cannot be.
        EnvironmentFailure: before the first step, where an environment does not answer.
    """
    main = int(os.environ.get("RANK", "0")) == 0
    folder = RunFolder(Path(config.grpo.output_dir), writes=main)
    checkpoint = _checkpoint(config, folder)
    found = environments(config)

    def say(line: str) -> None:
        if main:
            console.print(line, markup=False)

    folder.begin(
        model=config.model.model_name_or_path,
        seed=config.grpo.seed,
        environments=found.facts,
        steps=config.grpo.max_steps,
        resumed_from=None if checkpoint is None else int(checkpoint.name.rpartition("-")[2]),
    )
    if main:
        config.save(folder.path / "config.yaml")
    say(f"environments: {describe(found.facts)}")
    status, message, code = "failed", "", 1
    stopper = Stopper(config.run.outage_timeout, say)
    progress = ShowProgress(console if main else Console(quiet=True))
    try:
        with stopper:
            trainer = build(config, found, folder.rollouts, say)
            for callback in (Journal(folder), stopper, progress):
                trainer.add_callback(callback)
            status, message, code = _train(config, trainer, found.eval_dataset, folder, checkpoint, stopper, say)
    except StopRequested as request:
        status, message, code = "interrupted", f"{request}: stopped at once", 128 + request.number
    except BaseException as error:
        message = " ".join(f"{type(error).__name__}: {error}".split())
        if not isinstance(error, ConfigurationError):
            (folder.path / "error.txt").write_text(traceback.format_exc())
        raise
    finally:
        progress.stop()
        loop.close_all()
        folder.end(status, message)
        if main:
            _report(folder, say)
    if message:
        say(f"{status}: {message}")
    return code


def _train(
    config: Config,
    trainer: EnvGRPOTrainer,
    held_out: Dataset | None,
    folder: RunFolder,
    checkpoint: Path | None,
    stopper: Stopper,
    say: Callable[[str], None],
) -> tuple[str, str, int]:
    """Evaluate, train, evaluate. Returns the run's status, its message and the exit status."""
    step = 0 if checkpoint is None else int(checkpoint.name.rpartition("-")[2])
    if checkpoint is not None:
        say(f"going on from step {step} ({checkpoint})")
        folder.go_back_to(step)
    if held_out is not None and "before" not in folder.evaluations() and checkpoint is None:
        _evaluate(config, trainer, held_out, folder, "before", say)
    start = time.monotonic()
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
    finally:
        folder.trained(time.monotonic() - start)
    folder.update(step=trainer.state.global_step, steps=trainer.state.max_steps)
    if stopper.signal is not None:
        return "interrupted", f"stopped by a signal after step {trainer.state.global_step}", 128 + stopper.signal
    if stopper.outage is not None:
        away = stopper.outage
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(away.since))
        return "failed", f"{away.name} has been away since {since}; the last it said: {away.last_error}", 1
    trainer.save_model(str(folder.path / "model"))
    if held_out is not None:
        _evaluate(config, trainer, held_out, folder, "after", say)
    trainer.end()
    return "finished", "", 0


def _evaluate(
    config: Config,
    trainer: EnvGRPOTrainer,
    held_out: Dataset,
    folder: RunFolder,
    moment: str,
    say: Callable[[str], None],
) -> None:
    result = evaluate(
        trainer,
        held_out,
        rollouts_per_task=config.run.eval_rollouts,
        success_at=config.run.success_at,
        seed=config.grpo.seed,
        phase=moment,
    )
    folder.evaluation(moment, result)
    say(f"{moment} training, {result['split']}: {summary(result)}")


def summary(result: Evaluation) -> str:
    """An evaluation in a line."""
    sampled, greedy = result["sampled"], result["greedy"]
    return (
        f"success {sampled['success']:.3f} sampled (95 % {sampled['low']:.2f} to {sampled['high']:.2f}, "
        f"{result['tasks']} tasks, {sampled['n']} rollouts, {sampled['scored']:.0%} scored), "
        f"{greedy['success']:.3f} greedy"
    )


def build(config: Config, found: Environments, rollout_log: Path | None, say: Callable[[str], None]) -> EnvGRPOTrainer:
    """The trainer with its model. Raises ConfigurationError where the two and the environments do not go together."""
    from transformers import PrinterCallback, ProgressCallback
    from transformers.utils.logging import disable_progress_bar
    from trl import get_peft_config, get_quantization_config

    from trainer.grpo import EnvGRPOTrainer
    from trainer.models import load

    factory = found.environment_factory
    factories = factory if isinstance(factory, dict) else {found.facts[0]["name"]: factory}
    disable_progress_bar()  # of loading and saving weights; the run has a bar of its own
    model, tokenizer = load(config, factories, found.all_tasks, say)
    try:
        trainer = EnvGRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=config.grpo,
            train_dataset=found.train_dataset,
            environment_factory=found.environment_factory,
            reward_funcs=found.reward_funcs,
            peft_config=get_peft_config(config.model),
            quantization_config=get_quantization_config(config.model),
            rollout_log=rollout_log,
        )
    except (ValueError, ImportError, OSError) as error:
        raise ConfigurationError(" ".join(str(error).split())) from error
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    return trainer


def _checkpoint(config: Config, folder: RunFolder) -> Path | None:
    """Where to go on from. Raises ConfigurationError where a run would be mixed with an earlier one."""
    resume = config.run.resume
    if resume is None:
        if folder.holds_a_run():
            raise ConfigurationError(
                f"{folder.path} holds a run: --resume auto goes on with it, another --output_dir starts a new one"
            )
        return None
    if resume == "auto":
        return folder.last_checkpoint()
    path = Path(resume)
    if not (path / "trainer_state.json").is_file():
        raise ConfigurationError(f"--resume {resume}: there is no checkpoint")
    return path


def _report(folder: RunFolder, say: Callable[[str], None]) -> None:
    try:
        say(f"report: {write_report(folder.path)}")
    except ReportError as error:
        say(str(error))
