"""One run from its configuration to its report."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from rich.console import Console

from trainer.callbacks import Journal, ShowProgress, Stopper, StopRequested, evaluation_progress
from trainer.environments import Environments, environments
from trainer.evaluate import evaluate, summary
from trainer.learning import warning
from trainer.ors import loop
from trainer.ors.errors import ConfigurationError, ORSError
from trainer.report import ReportError, write_report
from trainer.report_run import read_metrics
from trainer.run import RunFolder, checkpoint_step, describe, share

if TYPE_CHECKING:
    from trainer.config import Config
    from trainer.grpo import EnvGRPOTrainer

Say = Callable[[str], None]
End = tuple[str, str, int]
"""How a run ended: its status, its message, the command's exit status."""


def run(config: Config, console: Console) -> int:
    """Train as configured and leave the run folder; the exit status of the command.

    Args:
        config: What to do.
        console: Where people are told.

    Raises:
        ConfigurationError: before anything was done, where something asked for cannot be.
        EnvironmentFailure: before anything was done, where an environment does not answer.
    """
    rank = int(os.environ.get("RANK", "0"))
    main = rank == 0
    folder = RunFolder(Path(config.grpo.output_dir), writes=main)

    def say(line: str) -> None:
        if main:
            console.print(line)

    status, message, code = "failed", "", 1
    stopper = Stopper(config.run.outage_timeout, say)
    progress = ShowProgress(console if main else Console(quiet=True))
    own_card = not keeps_model_card(config)
    with stopper:
        try:
            checkpoint = _checkpoint(config, folder)
            if checkpoint is not None and _nothing_left(config, folder):
                say(f"{folder.path} is finished: there is nothing to go on with")
                return 0
            if config.run.resume is not None:
                say(_beginning(checkpoint))
            found = environments(config)
            trainer = build(config, found, folder.rollouts, say)
            say(f"environments: {describe(found.facts)}")
            for callback in (Journal(folder, card=own_card), stopper, progress):
                trainer.add_callback(callback)
            _begin(config, found, folder, checkpoint, main)
            status, message, code = _train(config, trainer, found, folder, checkpoint, stopper, say)
            trainer.end()
        except StopRequested as request:
            status, message, code = "interrupted", f"stopped at once by {request}", 128 + request.number
        except BaseException as error:
            stopper.end()
            message = " ".join(f"{type(error).__name__}: {error}".split())
            if folder.begun and not isinstance(error, ORSError):
                told = folder.path / ("error.txt" if main else f"error-{rank}.txt")
                told.write_text(traceback.format_exc())
                error.add_note(f"the traceback is in {told}")
            raise
        finally:
            stopper.end()
            progress.stop()
            if folder.begun:
                folder.end(status, message)
            loop.close_all()
            if folder.begun and main:
                _report(folder, say)
                if own_card:
                    folder.card()
            elif main:
                folder.abandon()
        if status != "failed" and main and (why := warning(read_metrics(folder.path))):
            say(f"warning: {why}")
        say(f"{status}: {message or f'{trainer.state.global_step} steps; all of it is in {folder.path}'}")
        return code


def build(config: Config, found: Environments, rollout_log: Path | None, say: Say) -> EnvGRPOTrainer:
    """The trainer with its model. Raises ConfigurationError where the two and the environments do not go together."""
    from transformers import PrinterCallback, ProgressCallback
    from transformers.utils.logging import disable_progress_bar
    from trl import get_peft_config, get_quantization_config

    from trainer.grpo import EnvGRPOTrainer
    from trainer.models import load

    factory = found.environment_factory
    factories = factory if isinstance(factory, dict) else {found.facts[0]["name"]: factory}
    disable_progress_bar()  # of loading and saving weights; the run has a bar of its own
    evaluates = config.grpo.eval_strategy != "no" or config.grpo.eval_on_start
    given = config.grpo.model_init_kwargs
    model, tokenizer = load(config, factories, found.all_tasks, say)
    try:
        trainer = EnvGRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=config.grpo,
            train_dataset=found.train_dataset,
            eval_dataset=found.eval_dataset if evaluates else None,
            environment_factory=found.environment_factory,
            reward_funcs=found.reward_funcs,
            peft_config=get_peft_config(config.model),
            quantization_config=get_quantization_config(config.model),
            rollout_log=rollout_log,
            model_card=keeps_model_card(config),
        )
    except (ValueError, ImportError, OSError) as error:
        raise ConfigurationError(" ".join(str(error).split())) from error
    trainer.args.model_init_kwargs = given  # checkpoints keep all arguments, and variables were filled in
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    return trainer


def keeps_model_card(config: Config) -> bool:
    """Whether README.md is TRL's model card, as of a model with a page to point to, not the run's own."""
    from trainer.config import STARTER

    name = str(config.model.model_name_or_path)
    return name != STARTER and not Path(name).is_dir()


def _checkpoint(config: Config, folder: RunFolder) -> Path | None:
    """Where to go on from. Raises ConfigurationError where a run would be mixed with an earlier one, or with what is
    no run's."""
    resume = config.run.resume
    if resume == "auto":
        folder.check_alone()
        return folder.last_checkpoint()
    path = None if resume is None else Path(resume)
    if path is not None and checkpoint_step(path) is None:
        last = RunFolder(path).last_checkpoint() if path.is_dir() else None
        raise ConfigurationError(f"--resume {resume} is no checkpoint" + (f"; {last} is one" if last else ""))
    if path is not None and path.resolve().parent == folder.path.resolve():
        return path
    folder.check_alone()
    if folder.holds_a_run():
        raise ConfigurationError(
            f"{folder.path} holds a run: --resume auto goes on with it, another --output_dir starts a new one"
        )
    return path


def _beginning(checkpoint: Path | None) -> str:
    """Where a run that was to go on begins, in words."""
    if checkpoint is None:
        return "no checkpoint to go on from: from the start"
    return f"going on from step {checkpoint_step(checkpoint)} ({checkpoint})"


def _nothing_left(config: Config, folder: RunFolder) -> bool:
    """Whether a finished run is asked for no more steps than it has taken."""
    record = folder.recorded()
    if config.run.resume != "auto" or record.get("status") != "finished":
        return False
    if config.grpo.max_steps > 0:
        return bool(record.get("step", 0) >= config.grpo.max_steps)
    before = yaml.safe_load((folder.path / "config.yaml").read_text())
    return all(before.get(key) == config.given.get(key) for key in ("max_steps", "num_train_epochs"))


def _begin(config: Config, found: Environments, folder: RunFolder, checkpoint: Path | None, main: bool) -> None:
    folder.begin(
        model=config.model.model_name_or_path,
        seed=config.grpo.seed,
        environments=found.facts,
        steps=config.grpo.max_steps,
        resumed_from=None if checkpoint is None else checkpoint_step(checkpoint),
    )
    if main:
        config.save(folder.path / "config.yaml")


def _train(
    config: Config,
    trainer: EnvGRPOTrainer,
    found: Environments,
    folder: RunFolder,
    checkpoint: Path | None,
    stopper: Stopper,
    say: Say,
) -> End:
    """Evaluate, train, evaluate."""
    if config.run.resume is not None:
        folder.go_back_to(0 if checkpoint is None else checkpoint_step(checkpoint) or 0)
    if checkpoint is None and "before" not in folder.evaluations():
        _evaluate(config, trainer, found, folder, "before", say)
    start = time.monotonic()
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint is not None else None)
    finally:
        folder.trained(time.monotonic() - start)
    step = trainer.state.global_step
    folder.update(step=step, steps=trainer.state.max_steps)
    if stopper.signal is not None:
        return "interrupted", f"stopped by a signal after step {step}; --resume auto goes on", 128 + stopper.signal
    if stopper.outage is not None:
        away = stopper.outage
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(away.since))
        return "failed", f"{away.name} has been away since {since}; the last it said: {away.last_error}", 1
    trainer.save_model(str(folder.path / "model"))
    if trainer.is_world_process_zero():
        share(folder.path / "model")
    _evaluate(config, trainer, found, folder, "after", say)
    return "finished", "", 0


def _evaluate(
    config: Config, trainer: EnvGRPOTrainer, found: Environments, folder: RunFolder, moment: str, say: Say
) -> None:
    if found.eval_dataset is None:
        return
    result = evaluate(
        trainer,
        found.eval_dataset,
        rollouts_per_task=config.run.eval_rollouts,
        success_at=config.run.success_at,
        seed=config.grpo.seed,
        phase=moment,
        progress=evaluation_progress(say),
    )
    folder.evaluation(moment, result)
    say(f"{moment} training, {result['split']}: {summary(result)}")


def _report(folder: RunFolder, say: Say) -> None:
    try:
        say(f"report: {write_report(folder.path)}")
    except ReportError as error:
        say(str(error))
