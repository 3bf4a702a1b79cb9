"""Keys, flags and files of a run: what is understood, what is refused in one line, and what is written down."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOConfig, ModelConfig

from tests.trainer.configuring import MODEL, ONE, entry, entry_refused, refused, written
from trainer import config
from trainer.arguments import EnvironmentConfig, RunArguments
from trainer.config import load
from trainer.environments import environments
from trainer.ors.errors import ConfigurationError
from trainer.train_command import without_debug


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.yaml"


def test_every_field_of_trl_and_of_ours_is_a_flag_and_a_key() -> None:
    parser = config._parser()
    flags = {option for action in parser._actions for option in action.option_strings}
    keys = {action.dest for action in parser._actions}
    for kind in (GRPOConfig, ModelConfig, RunArguments):
        for f in fields(kind):
            if f.init:
                assert f"--{f.name}" in flags
                assert f.name in keys


def test_a_file_sets_fields_of_every_kind(file: Path) -> None:
    words = written(
        file,
        environments=[{"url": "http://127.0.0.1:1"}],
        learning_rate="5e-4",
        max_steps=7,
        save_strategy=False,  # what YAML makes of a bare no
        report_to=["trackio"],
        model_init_kwargs={"dtype": "float32"},
        shuffle_dataset=False,
        dtype="float32",
        lora_target_modules=["q_proj", "v_proj"],
        eval_rollouts=2,
    )
    found = load(words)
    assert found.grpo.learning_rate == 5e-4
    assert found.grpo.max_steps == 7
    assert found.grpo.save_strategy == "no"
    assert found.grpo.report_to == ["trackio"]
    assert found.grpo.model_init_kwargs == {"dtype": "float32"}
    assert found.grpo.shuffle_dataset is False
    assert found.model.dtype == "float32"
    assert found.model.lora_target_modules == ["q_proj", "v_proj"]
    assert found.run.eval_rollouts == 2


def test_flags_win_over_the_file(file: Path) -> None:
    words = written(file, max_steps=7, url="http://127.0.0.1:1")
    assert load([*words, "--max-steps=9"]).grpo.max_steps == 9
    assert load(["--max_steps", "9", *words]).grpo.max_steps == 9
    assert load([f"--config={file}", "--no_shuffle_dataset"]).grpo.shuffle_dataset is False


def test_without_a_gpu_the_defaults_fit_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert load(ONE).grpo.use_cpu
    assert load(ONE).grpo.report_to == []
    assert load([*ONE, "--gradient_checkpointing", "true"]).grpo.gradient_checkpointing


def test_an_unknown_key_is_refused_with_the_one_that_was_meant(file: Path) -> None:
    assert "run.yaml: unknown key 'max_step'; did you mean 'max_steps'?" in refused(*written(file, max_step=3))
    assert refused(*ONE, "--lerning_rate", "1") == (
        "the command line: unknown key 'lerning_rate'; did you mean 'learning_rate'?"
    )
    assert "unknown key 'splt'; did you mean 'split'?" in entry_refused(file, splt="train")
    assert "environments[0]" in entry_refused(file, splt="train")
    assert "'12' belongs to no flag" in refused(*ONE, "12")
    assert "unknown key 'help'" in refused(*written(file, help=True))


def test_a_flag_is_never_guessed_from_its_beginning() -> None:
    assert "unknown key 'max_step'" in refused(*ONE, "--max_step", "3")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"max_steps": "soon"}, "--max_steps: invalid int value: 'soon'"),
        ({"max_steps": 2.5}, "--max_steps"),
        ({"max_steps": True}, "--max_steps"),
        ({"max_steps": [1]}, "max_steps is one value, not a list"),
        ({"wait": "long"}, "--wait: invalid float value: 'long'"),
        ({"num_tasks": 2.5, "url": "http://h"}, "--num_tasks"),
        ({"output_dir": {"a": 1}}, "output_dir is one value, not a dict"),
        ({"shuffle_dataset": 3}, "--shuffle_dataset"),
        ({"save_strategy": "often"}, "often"),
        ({"eval_rollouts": 0}, "eval_rollouts is at least 1, not 0"),
        ({"eval_tasks": 0}, "eval_tasks is at least 1, not 0"),
        ({"wait": -1}, "wait is a number of seconds, not -1.0"),
        ({"num_generations": 3, "url": "http://h"}, "num_generations"),
        ({"max_steps": None}, "run.yaml: max_steps is null; leave the key out for its default"),
        ({"learning_rate": None}, "run.yaml: learning_rate is null"),
        ({"wait": None}, "run.yaml: wait is null"),
        ({"max_steps": 0}, "max_steps is at least 1, or -1 where num_train_epochs says how many, not 0"),
        ({"num_train_epochs": 0}, "num_train_epochs is above 0, not 0.0"),
        ({"per_device_train_batch_size": 0}, "per_device_train_batch_size is at least 1, not 0"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps is at least 1, not 0"),
        ({"learning_rate": -1}, "learning_rate is at least 0, not -1.0"),
        ({"temperature": 0}, "temperature is above 0, not 0.0"),
        ({"seed": -1}, "seed is between 0 and 4294967295, not -1"),
        ({"seed": 2**32}, "seed is between 0 and 4294967295, not 4294967296"),
        ({"epsilon": float("nan")}, "epsilon is nan, which is no number"),
        ({"reward_weights": [float("nan")]}, "reward_weights is nan, which is no number"),
        ({"success_at": float("nan")}, "success_at is a number, not nan"),
        ({"success_at": float("inf")}, "success_at is a number, not inf"),
        ({"resume_from_checkpoint": "runs/a/checkpoint-1"}, "resume_from_checkpoint has no effect here: --resume "),
        ({"do_predict": True}, "do_predict has no effect here: ors-train eval"),
        ({"eval_strategy": "steps", "url": "http://h"}, "eval_strategy evaluates on the tasks of eval_split, and none"),
        ({"eval_on_start": True, "url": "http://h"}, "eval_on_start evaluates on the tasks of eval_split, and none"),
        ({"do_eval": True, "url": "http://h"}, "do_eval evaluates on the tasks of eval_split, and none"),
        ({"environments": {"url": "http://h"}}, "run.yaml: environments is a list, each entry with a url, not dict"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_its_key(file: Path, keys: dict[str, Any], said: str) -> None:
    assert said in refused(*written(file, **keys))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "per_device_train_batch_size (6) is no multiple of num_generations (8)"),
        (
            {"gradient_accumulation_steps": 2},
            "per_device_train_batch_size (6) x gradient_accumulation_steps (2) is no multiple of num_generations (8)",
        ),
        (
            {"steps_per_generation": 3},
            "per_device_train_batch_size (6) x steps_per_generation (3) is no multiple of num_generations (8)",
        ),
        (
            {"generation_batch_size": 16},
            "generation_batch_size (16) is no multiple of per_device_train_batch_size (6)",
        ),
        ({"generation_batch_size": 12}, "generation_batch_size (12) is no multiple of num_generations (8)"),
        (
            {"num_generations": 3, "eval_strategy": "steps", "per_device_eval_batch_size": 8},
            "per_device_eval_batch_size (8) is no multiple of num_generations (3)",
        ),
        (
            {"num_generations": 3, "eval_strategy": "epoch", "num_generations_eval": 5},
            "per_device_eval_batch_size (8) is no multiple of num_generations_eval (5)",
        ),
        ({"num_generations": 0}, "num_generations is at least 2, since a group's rewards are compared, not 0"),
        (
            {"num_generations": None},
            "num_generations is at least 2, since a group's rewards are compared, not None",
        ),
        (
            {"per_device_train_batch_size": 0, "generation_batch_size": 8},
            "per_device_train_batch_size is at least 1, not 0",
        ),
        ({"steps_per_generation": 0}, "steps_per_generation is at least 1, not 0"),
    ],
)
def test_a_batch_that_is_no_whole_groups_is_said_in_the_words_of_its_keys(
    file: Path, keys: dict[str, Any], said: str
) -> None:
    assert (
        refused(*written(file, url="http://h", eval_split="test", **{"per_device_train_batch_size": 6, **keys})) == said
    )


def test_every_process_of_a_run_adds_to_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load([*ONE, "--per_device_train_batch_size", "6", "--gradient_accumulation_steps", "4"])
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert refused(*ONE, "--per_device_train_batch_size", "6") == (
        "per_device_train_batch_size (6) x processes (2) is no multiple of num_generations (8)"
    )


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("num_tasks", "many", "num_tasks is a whole number, not str"),
        ("num_tasks", True, "num_tasks is a whole number, not True"),
        ("indices", 3, "indices is a list of whole numbers, not 3"),
        ("indices", [1, "2"], "indices is a list of whole numbers"),
        ("weight", "heavy", "weight is a number, not str"),
        ("split", 5, "split is text, not 5"),
        ("headers", ["a"], "headers is a mapping"),
        ("open_timeout", None, "open_timeout is a number, not NoneType"),
        ("eval_tasks", 0, "eval_tasks is at least 1, not 0"),
        ("unfinished_reward", float("nan"), "unfinished_reward is a number, not nan"),
        ("weight", "nan", "weight is a number, not nan"),
        ("url", "http://h/?token=hunter2", "the url has a query or a fragment, which no server's address has"),
        ("name", "owner/name", "an entry has a url, or the name of an environment in the catalog, not both"),
        ("weight", 0, "weight is a number above 0, not 0"),
        ("weight", float("inf"), "weight is a number above 0, not inf"),
        ("api_key", "hunter2", "api_key takes ${VARIABLE}"),
    ],
)
def test_a_value_of_an_environment_that_does_not_fit_is_refused(file: Path, key: str, value: Any, said: str) -> None:
    assert entry_refused(file, **{key: value}).startswith(f"{file}, environments[0]: {said}")


def test_what_is_wrong_with_an_entry_is_said_with_its_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    good = {"url": "http://h"}
    for bad, said in (
        ({"env_name": "echo"}, "an entry has a url, or the name of an environment in the catalog"),
        ({"url": "http://h", "splt": "train"}, "unknown key 'splt'; did you mean 'split'?"),
        ({"url": "http://h", "place": "here"}, "unknown key 'place'"),
        ("http://h", "an entry is a mapping with a url, not str"),
    ):
        assert refused(*written(file, environments=[good, bad])).startswith(f"{file}, environments[1]: {said}")
    for keys, said in (
        ({"secrets": {"k": "NO SUCH"}}, "secrets: k takes the name of the environment variable that holds the secret"),
        ({"secrets": {"k": "NO_SUCH"}}, "the environment variable NO_SUCH is not set, and secrets: k is taken from it"),
        ({"reward": "best"}, "there is no reward 'best'; there are: "),
        ({"num_tasks": 0}, "num_tasks is at least 1, not 0"),
        ({"indices": []}, "indices is empty"),
        ({"call_timeout": 0}, "call_timeout is a number of seconds above 0, not 0"),
        ({"url": "ftp://h"}, "the target is no URL of an ORS server"),
    ):
        found = load(written(file, environments=[good, {**good, **keys}]))
        with pytest.raises(ConfigurationError) as refusal:
            environments(found)
        assert str(refusal.value).startswith(f"{file}, environments[1]: {said}")
    found = load(written(file, environments=[{**good, "weight": 2}, good]))
    with pytest.raises(ConfigurationError, match=r"environments\[1\]: no weight, where another has one"):
        environments(found)


def test_a_key_of_an_entry_is_no_flag_and_no_key_of_the_file(file: Path) -> None:
    said = "is a key of an entry of environments: in a --config file"
    assert refused(*ONE, "--api_key", "hunter2") == f"the command line: api_key {said}"
    assert refused(*ONE, "--max-concurrency=4", "--indices", "1", "2") == f"the command line: max_concurrency {said}"
    assert refused(*written(file, url="http://h", indices=[1])) == f"{file}: indices {said}"


def test_a_null_is_fine_where_the_key_has_one(file: Path) -> None:
    found = load(written(file, url="http://h", env_name=None, report_to=None, model_init_kwargs=None))
    assert found.grpo.model_init_kwargs is None


def test_evaluating_during_training_takes_any_entrys_split(file: Path) -> None:
    listed = [{"url": "http://h"}, {"url": "http://h:2", "eval_split": "test"}]
    sizes = {"num_generations": 2, "per_device_eval_batch_size": 2}
    assert load(written(file, environments=listed, eval_strategy="epoch", do_eval=True, **sizes)).grpo.do_eval


def test_a_number_that_yaml_takes_for_text_is_a_number(file: Path) -> None:
    assert entry(file, weight="5e-1").environments[0].weight == 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("- a\n- b\n", "is no mapping of keys to values"),
        ("max_steps: [1\nmore: 2\n", ", line 2 is no YAML"),
        ("a: b: c\n", ", line 1 is no YAML"),
        ("\x00", "is no YAML"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    told = refused("--config", str(file))
    assert told.startswith(str(file))
    assert said in told


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    assert refused("--config", str(file)) == f"{file}: No such file or directory"
    assert refused("--config", str(file.parent)) == f"{file.parent}: Is a directory"
    file.write_bytes(b"\xff\xfe\xff")
    assert "is no YAML" in refused("--config", str(file))
    assert refused("--config") == "--config takes the path of a YAML file"


def test_a_run_needs_a_model_and_environments(file: Path) -> None:
    assert refused("--url", "http://h").startswith("no model")
    assert refused(*MODEL).startswith("no environment")
    assert refused(*written(file, environments=[])).startswith("no environment")
    assert "an entry is a mapping with a url, not str" in refused(*written(file, environments=["http://h"]))


def test_one_environment_or_a_list_but_not_both(file: Path) -> None:
    words = written(file, environments=[{"url": "http://h"}])
    for flag in ("--url", "--env_name", "--split"):
        assert "not both" in refused(*words, flag, "x")
    assert "num_tasks is of the one environment at --url" in refused(*words, "--num_tasks", "3")
    assert "not both" in refused(*written(file, environments=[{"url": "http://h"}], split="test"))


def test_one_environment_takes_its_keys_from_flags() -> None:
    (only,) = load([*ONE, "--env_name", "echo", "--split", "test", "--num_tasks", "3"]).environments
    assert only == EnvironmentConfig(url="http://127.0.0.1:1", env_name="echo", split="test", num_tasks=3)


def test_what_is_saved_starts_the_same_run(file: Path, tmp_path: Path) -> None:
    listed = [{"url": "http://h:1", "weight": 2, "secrets": {"a": "B"}}, {"url": "http://h:2", "weight": 1}]
    words = written(file, environments=listed, max_steps=5, resume="auto", eval_split="test")
    first = load(
        [
            *words,
            "--learning-rate=3e-4",
            "--no-shuffle-dataset",
            "--lora_target_modules",
            "a",
            "b",
            "--outage_timeout",
            "9",
        ]
    )
    first.save(tmp_path / "again.yaml")
    again = load(["--config", str(tmp_path / "again.yaml")])
    assert again.environments == first.environments
    assert again.model == first.model
    kept = {f.name for f in fields(GRPOConfig)} - {"logging_dir"}
    assert {k: getattr(again.grpo, k) for k in kept} == {k: getattr(first.grpo, k) for k in kept}
    assert again.grpo.learning_rate == 3e-4
    assert again.run.outage_timeout == 9
    assert again.run.resume is None


def test_what_is_saved_of_one_environment_at_a_url_starts_the_same_run(tmp_path: Path) -> None:
    first = load([*ONE, "--env_name", "echo", "--num_tasks", "3"])
    first.save(tmp_path / "again.yaml")
    assert load(["--config", str(tmp_path / "again.yaml")]).environments == first.environments


def test_debug_is_ours_alone_and_with_a_value_also_trls() -> None:
    assert without_debug(["--debug", "--max_steps", "3"]) == ["--max_steps", "3"]
    assert without_debug(["--max_steps", "3", "--debug"]) == ["--max_steps", "3"]
    assert without_debug(["--debug", "underflow_overflow"]) == ["--debug", "underflow_overflow"]
