"""What `ors-train train` cannot do is said in one line before anything is done, and nothing is left behind."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port
from tests.trainer.commands import SMALL, Command, happened, one_line, save_tiny_model
from tests.trainer.conftest import until
from tests.trainer.scripted_server import Protocol, scripted


@pytest.fixture
def refused(ors_train: Command, tmp_path: Path, tiny_model: Path) -> Any:
    """The line of a `train` that is refused; nothing of a run is left behind."""

    def call(*words: object) -> str:
        run = tmp_path / "runs" / "first"
        said = ors_train(
            "train", "--output_dir", run, "--model_name_or_path", tiny_model, "--wait=0", *SMALL[:-1], *words
        )
        assert not (tmp_path / "runs").exists()
        return one_line(said).removeprefix("ors-train train: ")

    return call


def test_a_server_that_is_not_up_is_waited_for_and_named(refused: Any) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    start = time.monotonic()
    said = refused("--url", url, "--env_name", "gym", "--wait", "1")
    assert time.monotonic() - start >= 1
    assert "gym" in said and url in said and "waited 1 s" in said


def test_a_host_that_does_not_exist_is_named(refused: Any) -> None:
    said = refused("--url", "http://no-such-host.invalid:8000", "--env_name", "gym")
    assert "http://no-such-host.invalid:8000" in said


def test_what_is_no_url_is_refused(refused: Any) -> None:
    assert "ftp://h" in refused("--url", "ftp://h")


def test_a_wrong_environment_lists_those_there_are(refused: Any, gym: str) -> None:
    assert refused("--url", gym, "--env_name", "jim") == f"{gym} has no environment 'jim'; it has: gym, bare"


def test_a_wrong_split_lists_those_there_are(refused: Any, gym: str) -> None:
    where = ("--url", gym, "--env_name", "gym")
    for words in (("--split", "tarin"), ("--eval_split", "tarin")):
        said = refused(*where, *words)
        assert said == f"gym at {gym} has no split 'tarin'; it has: train, test, nothing"


def test_a_split_without_tasks_is_refused(refused: Any, gym: str) -> None:
    said = refused("--url", gym, "--env_name", "gym", "--split", "nothing")
    assert said == f"gym at {gym}: split 'nothing' has no tasks"


@pytest.mark.parametrize("number", ["0", "-3"])
def test_no_tasks_are_too_few(refused: Any, gym: str, number: str) -> None:
    said = refused("--url", gym, "--env_name", "gym", "--num_tasks", number)
    assert said == f"num_tasks is at least 1, not {number}"


def test_indices_are_checked(refused: Any, gym: str, tmp_path: Path) -> None:
    def with_indices(**keys: Any) -> str:
        entry = {"url": gym, "env_name": "gym", **keys}
        (tmp_path / "c.yaml").write_text(json.dumps({"environments": [entry]}))
        said: str = refused("--config", tmp_path / "c.yaml")
        return said

    assert with_indices(indices=[0, 6]) == f"gym at {gym}: split 'train' has tasks 0 to 5, not 6"
    assert "not -1" in with_indices(indices=[-1])
    assert with_indices(indices=[]).endswith(
        "c.yaml, environments[0]: indices is empty: there would be nothing to train on"
    )
    assert with_indices(indices=[1], num_tasks=2).endswith("environments[0]: give num_tasks or indices, not both")
    assert "there is no reward 'best'" in with_indices(reward="best")


def test_environments_of_one_name_are_told_apart_by_label(refused: Any, gym: str, tmp_path: Path) -> None:
    entry = {"url": gym, "env_name": "gym"}
    (tmp_path / "c.yaml").write_text(json.dumps({"environments": [entry, entry]}))
    assert "'gym/train'" in refused("--config", tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text(json.dumps({"environments": [entry, {**entry, "weight": 2}]}))
    said = refused("--config", tmp_path / "c.yaml")
    assert said.endswith("environments[0]: no weight, where another has one: give every environment a weight, or none")


def test_a_server_without_tools_is_refused(refused: Any, gym: str) -> None:
    assert f"bare at {gym} offers no tools" in refused("--url", gym, "--env_name", "bare")


def test_a_batch_that_the_groups_do_not_divide_is_refused(refused: Any, gym: str) -> None:
    said = refused("--url", gym, "--env_name", "gym", "--num_generations", "3")
    assert said == "per_device_train_batch_size (4) is no multiple of num_generations (3)"


def test_a_model_that_does_not_exist_is_named(
    refused: Any, gym: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--url", gym, "--env_name", "gym")
    for name in ("./nothing", "/no/such/model", "runs/none/model"):
        said = refused(*where, "--model_name_or_path", name)
        assert said == f"model {name!r}: there is no such folder"
    (tmp_path / "run" / "model").mkdir(parents=True)
    said = refused(*where, "--model_name_or_path", tmp_path / "run")
    assert said.endswith(f"that is a run's folder; its model is {tmp_path / 'run' / 'model'}")


def test_a_folder_that_holds_no_model_is_named(refused: Any, ors_train: Command, gym: str, tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "run.py").touch()
    where = ("--url", gym, "--env_name", "gym")
    no_model = f"model '{scripts}': that is no model's folder; it has no config.json"
    assert refused(*where, "--model_name_or_path", scripts) == no_model
    assert one_line(ors_train("eval", *where, "--model", scripts)) == f"ors-train eval: {no_model}"
    said = one_line(ors_train("inspect", gym, "--env_name", "gym", "--model", scripts))
    assert said == f"ors-train inspect: {no_model}"
    for text, words in (("{", "config.json' is not a valid JSON file"), ("{}", "sentencepiece or tiktoken")):
        (scripts / "config.json").write_text(text)
        said = refused(*where, "--model_name_or_path", scripts)
        assert said.startswith(f"model '{scripts}': ") and words in said and not said.endswith(":")


def test_a_hub_that_does_not_answer_is_asked_once(
    ors_train: Command, gym: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub)
    said = one_line(ors_train("eval", "--model", "nobody/nothing", "--url", gym, "--env_name", "gym"))
    assert said.startswith(
        f"ors-train eval: model 'nobody/nothing': there is no such folder, and the hub at {hub} does not answer: "
    )
    said = one_line(ors_train("eval", "--model", "no model", "--url", gym, "--env_name", "gym"))
    assert said.startswith("ors-train eval: model 'no model': ")


def test_a_model_whose_template_cannot_call_tools_is_refused(refused: Any, gym: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    for name, template in (("none", None), ("plain", "{{ messages[0]['content'] }}")):
        path = save_tiny_model(tmp_path / name)
        (path / "chat_template.jinja").unlink()
        words = AutoTokenizer.from_pretrained(path)
        words.chat_template = template
        words.save_pretrained(path)
        said = refused("--url", gym, "--env_name", "gym", "--model_name_or_path", path)
        assert said == f"model '{path}': its chat template cannot call tools, so it cannot act in environments"


def test_the_starter_is_no_model_for_an_environment_it_cannot_learn(refused: Any, gym: str) -> None:
    said = refused("--url", gym, "--env_name", "gym", "--model_name_or_path", "starter")
    assert said.startswith("the starter model learns environments with one tool of one text argument")
    for schema in ({"properties": {"x": True}}, {"properties": [1]}, {"properties": {"x": {"type": "string"}, "y": 1}}):
        protocol = Protocol()
        protocol.tools = [{"name": "add", "description": "Add.", "input_schema": schema}]
        with scripted(protocol) as server:
            assert refused("--url", server.url, "--model_name_or_path", "starter") == said


def test_a_run_folder_that_cannot_be_written_is_named(
    ors_train: Command, gym: str, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for run in (tmp_path / "file" / "run", "/proc/self/run"):
        said = ors_train("train", "--url", gym, "--model_name_or_path", tiny_model, "--output_dir", run, *SMALL)
        assert one_line(said).startswith(f"ors-train train: the run folder {run} cannot be written: ")


def test_resuming_what_is_no_checkpoint_is_refused(refused: Any, gym: str, tmp_path: Path) -> None:
    said = refused("--url", gym, "--resume", tmp_path / "none")
    assert said == f"--resume {tmp_path / 'none'} is no checkpoint"
    last = tmp_path / "other" / "checkpoint-5"
    last.mkdir(parents=True)
    (last / "trainer_state.json").write_text('{"global_step": 5}')
    said = refused("--url", gym, "--resume", tmp_path / "other")
    assert said == f"--resume {tmp_path / 'other'} is no checkpoint; {last} is one"


def test_a_folder_that_holds_a_run_is_not_mixed_with_another(
    ors_train: Command, gym: str, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    words = ("train", "--url", gym, "--model_name_or_path", tiny_model, "--output_dir", tmp_path / "run", *SMALL)
    assert "holds a run: --resume auto goes on with it" in one_line(ors_train(*words))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


@pytest.mark.parametrize("words", [(), ("--resume", "auto"), ("--resume", "CHECKPOINT")])
def test_files_that_no_run_has_left_are_not_replaced(
    ors_train: Command, gym: str, tiny_model: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    mine, elsewhere = tmp_path / "mine", tmp_path / "run" / "checkpoint-5"
    (mine / "model").mkdir(parents=True)
    elsewhere.mkdir(parents=True)
    (elsewhere / "trainer_state.json").write_text('{"global_step": 5}')
    for name in ("README.md", "config.yaml"):
        (mine / name).write_text("mine")
    given = [word.replace("CHECKPOINT", str(elsewhere)) for word in words]
    where = ("--url", gym, "--env_name", "gym", "--model_name_or_path", tiny_model, "--output_dir", mine, *SMALL)
    said = one_line(ors_train("train", *where, *given))
    listed = "README.md, config.yaml, model"
    assert said == f"ors-train train: {mine} holds other things than a run ({listed}): choose another --output_dir"
    assert sorted(path.name for path in mine.iterdir()) == ["README.md", "config.yaml", "model"]
    assert {(mine / name).read_text() for name in ("README.md", "config.yaml")} == {"mine"}


def test_debug_shows_where(ors_train: Command, tmp_path: Path) -> None:
    from trainer.ors.errors import ConfigurationError

    with pytest.raises(ConfigurationError):
        ors_train("train", "--config", tmp_path / "none.yaml", "--debug")


def test_no_session_outlives_a_refusal(refused: Any, gym: str, diary: Path) -> None:
    refused("--url", gym, "--env_name", "gym", "--model_name_or_path", "/no/such/model")
    assert happened(diary, "setup") > 0
    until(lambda: happened(diary, "setup") == happened(diary, "teardown"))
