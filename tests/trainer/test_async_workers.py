"""Factory, adapter class and reward in a spawned process, and under the rollout loop of TRL's AsyncGRPOTrainer."""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from benchmarks.scripted import tokenizer
from tests.servers import serve_script
from tests.trainer.playing import SERVER, Play
from trainer import OpenRewardSpec

pytestmark = pytest.mark.slow

SPAWN = multiprocessing.get_context("spawn")
PATIENCE = 120.0


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    with serve_script(SERVER) as url, closing(Play(url)) as play:
        yield play


def test_factory_adapter_class_and_reward_survive_pickling(play: Play) -> None:
    spec = play.spec(reward="sum", unfinished_reward=-1.0)
    factory, made, reward = pickle.loads(
        pickle.dumps((spec.environment_factory, type(spec.environment_factory()), spec.reward_funcs))
    )
    assert type(factory()) is made is type(spec.environment_factory())
    assert reward == spec.reward_funcs


def test_a_spawned_process_plays_an_episode_with_the_factory(play: Play) -> None:
    from tests.trainer.async_loop import play as play_one

    spec = play.spec(offer_reward=True)
    answers = SPAWN.Queue()
    process = SPAWN.Process(target=play_one, args=(spec.environment_factory, spec.train_dataset[2], answers))
    process.start()
    assert answers.get(timeout=PATIENCE) == ("Play train-2.", "noted mine", [0.5], 0.5)
    process.join(PATIENCE)
    assert process.exitcode == 0
    told = play.await_record(lambda told: told["sessions_open"] == 0)
    assert told["sessions_open"] == 0  # a worker's sessions are closed when it ends, too


def test_an_adapter_offers_its_reward_only_where_asked(play: Play) -> None:
    assert not hasattr(play.spec().environment_factory(), "get_reward")
    assert hasattr(play.spec(offer_reward=True).environment_factory(), "get_reward")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore::trl.import_utils.TRLExperimentalWarning")
def test_trls_async_rollout_loop_scores_by_the_environments_own_reward(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl.experimental.async_grpo.async_rollout_worker import _child_main

    from tests.trainer.async_loop import ScriptedLoop

    spec = play.spec(offer_reward=True)
    with LoopProcess(_child_main, ScriptedLoop, spec) as (process, samples, failures):
        scored = []
        deadline = time.monotonic() + PATIENCE
        while len(scored) < 8 and time.monotonic() < deadline and process.is_alive():
            try:
                scored.append(samples.get(timeout=1.0))
            except queue.Empty:
                continue
        assert process.is_alive(), failures.get(timeout=10)
    assert [sample.metrics["reward"] for sample in scored] == [0.75] * 8  # once: not twice 0.75
    assert play.await_record(lambda told: told["sessions_open"] == 0)["sessions_open"] == 0


class LoopProcess:
    """The loop in a spawned process, stopped after the block."""

    def __init__(self, main: Any, loop: type, spec: OpenRewardSpec) -> None:
        self._stop, self._failed = SPAWN.Event(), SPAWN.Event()
        self._samples, self._failures = SPAWN.Queue(), SPAWN.Queue()
        settings = {
            "model_name": "none",
            "dataset": spec.train_dataset,
            "reward_funcs": [],
            "processing_class": tokenizer(),
            "eos_token_ids": [tokenizer().eos_token_id],
            "environment_factory": spec.environment_factory,
            "num_generations": 4,
            "max_inflight_tasks": 8,
        }
        self._shared = (  # kept: a semaphore that its parent forgets is gone before the child has it
            self._samples,
            SPAWN.Value("i", 0),
            self._stop,
            SPAWN.Event(),
            SPAWN.Value("d", 0.0),
            self._failed,
            self._failures,
            SPAWN.Queue(),
        )
        self._process = SPAWN.Process(target=main, args=(loop, settings, *self._shared))

    def __enter__(self) -> Any:
        self._process.start()
        return self._process, self._samples, self._failures

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        deadline = time.monotonic() + 30
        while self._process.is_alive() and time.monotonic() < deadline:
            try:
                self._samples.get(timeout=0.2)  # what is left in it would keep the process from ending
            except queue.Empty:
                continue
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()
