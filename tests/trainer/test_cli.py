"""What `ors-train` says: help, and one line for what cannot be done, with nothing left behind."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ROOT, free_port, serve_script
from tests.trainer.commands import GYM, SMALL, Command, Said, happened, save_tiny_model
from tests.trainer.conftest import until
from trainer import cli

VERBS = ("demo", "train", "eval", "inspect", "report")


@pytest.fixture(scope="module")
def diary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gym") / "diary.jsonl"


@pytest.fixture(scope="module")
def gym(diary: Path) -> Iterator[str]:
    with serve_script(GYM, env={"DIARY": str(diary)}) as url:
        yield url


def one_line(said: Said) -> str:
    """The line that a command which could not do its work left, and nothing else."""
    assert said.status != 0
    assert said.out == ""
    assert said.err.endswith("\n") and said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    return said.err.strip()


# -- help and usage


def test_help_of_every_verb_is_quick_and_has_an_example() -> None:
    code = f"""
import contextlib, io, sys
from trainer.cli import main
for verb in {VERBS}:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        assert main([verb, "--help"]) == 0
    assert "example: ors-train " + verb in told.getvalue(), told.getvalue()
heavy = {{"torch", "transformers", "trl", "datasets", "openreward", "matplotlib"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_help_lists_the_verbs(ors_train: Command) -> None:
    for words in ([], ["--help"], ["-h"]):
        said = ors_train(*words)
        assert said.status == 0
        assert all(verb in said.out for verb in VERBS)


def test_help_of_train_lists_every_key_of_ours(ors_train: Command) -> None:
    from trainer.arguments import EnvironmentConfig, RunArguments

    told = ors_train("train", "--url", "x", "--help").out
    for kind in (RunArguments, EnvironmentConfig):
        assert all(name in told for name in kind.__dataclass_fields__)


def test_a_verb_that_does_not_exist_is_named_with_those_that_do(ors_train: Command) -> None:
    said = ors_train("trian")
    assert said.status == 2
    assert one_line(said) == "ors-train: no verb 'trian'; there are: demo, train, eval, inspect, report"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("demo", "--stepz", "3"), "unrecognized arguments: --stepz 3"),
        (("demo", "--steps", "few"), "argument --steps: invalid int value: 'few'"),
        (("demo", "--st", "3"), "unrecognized arguments: --st 3"),
        (("eval", "--url", "http://h"), "the following arguments are required: --model"),
        (("eval", "--model", "m"), "one of the arguments --url --config is required"),
        (("inspect",), "the following arguments are required: url"),
        (("report",), "the following arguments are required: run"),
    ],
)
def test_a_wrong_flag_takes_one_line_and_status_2(ors_train: Command, words: tuple[str, ...], said: str) -> None:
    told = ors_train(*words)
    assert told.status == 2
    assert one_line(told) == f"ors-train {words[0]}: {said}; ors-train {words[0]} --help says more"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("demo", "--steps", "0"), "--steps is at least 1, not 0"),
        (("demo", "--eval_rollouts", "-1"), "--eval_rollouts is at least 1, not -1"),
        (("eval", "--model", "m", "--url", "http://h", "--rollouts", "0"), "--rollouts is at least 1, not 0"),
        (("eval", "--model", "m", "--url", "http://h", "--batch", "0"), "--batch is at least 1, not 0"),
        (("eval", "--model", "m", "--url", "http://h", "--num_tasks", "0"), "--num_tasks is at least 1, not 0"),
        (
            ("eval", "--model", "m", "--url", "http://h", "--json", "/no/such/x.json"),
            "/no/such/x.json cannot be written",
        ),
        (("report", "/no/such/run"), "no report: /no/such/run is not a folder"),
    ],
)
def test_a_number_or_path_that_makes_no_sense_is_said_at_once(
    ors_train: Command, words: tuple[str, ...], said: str
) -> None:
    assert one_line(ors_train(*words)) == f"ors-train {words[0]}: {said}"


def test_ctrl_c_before_anything_has_begun_ends_with_130(ors_train: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "import_module", interrupted)
    said = ors_train("report", "x")
    assert (said.status, said.out, said.err) == (130, "", "")


def test_an_error_nobody_foresaw_takes_one_line_with_its_type(ors_train: Command, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 300)
    said = one_line(ors_train("train", "--config", deep))
    assert "File name too long" in said


# -- train: refused before it begins


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
    assert with_indices(indices=[]) == "indices is empty: there would be nothing to train on"
    assert with_indices(indices=[1], num_tasks=2) == "give num_tasks or indices, not both"
    assert "there is no reward 'best'" in with_indices(reward="best")


def test_environments_of_one_name_are_told_apart_by_label(refused: Any, gym: str, tmp_path: Path) -> None:
    entry = {"url": gym, "env_name": "gym"}
    (tmp_path / "c.yaml").write_text(json.dumps({"environments": [entry, entry]}))
    assert "'gym/train'" in refused("--config", tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text(json.dumps({"environments": [entry, {**entry, "weight": 2}]}))
    assert refused("--config", tmp_path / "c.yaml") == "give every environment a weight, or none"


def test_a_server_without_tools_is_refused(refused: Any, gym: str) -> None:
    assert f"bare at {gym} offers no tools" in refused("--url", gym, "--env_name", "bare")


def test_a_batch_that_the_groups_do_not_divide_is_refused(refused: Any, gym: str) -> None:
    said = refused("--url", gym, "--env_name", "gym", "--num_generations", "3")
    assert "divisible by" in said and "num_generations" in said


def test_a_model_that_does_not_exist_is_named(
    refused: Any, gym: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--url", gym, "--env_name", "gym")
    for name in ("./nothing", "/no/such/model", "runs/none/model"):
        said = refused(*where, "--model_name_or_path", name)
        assert said == f"model {name!r}: there is no such folder"
    (tmp_path / "hollow").mkdir()
    assert refused(*where, "--model_name_or_path", tmp_path / "hollow").startswith(f"model '{tmp_path / 'hollow'}': ")


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


def test_debug_shows_where(ors_train: Command, tmp_path: Path) -> None:
    from trainer.ors.errors import ConfigurationError

    with pytest.raises(ConfigurationError):
        ors_train("train", "--config", tmp_path / "none.yaml", "--debug")


def test_no_session_outlives_a_refusal(refused: Any, gym: str, diary: Path) -> None:
    refused("--url", gym, "--env_name", "gym", "--model_name_or_path", "/no/such/model")
    assert happened(diary, "setup") > 0
    until(lambda: happened(diary, "setup") == happened(diary, "teardown"))


def test_a_proxy_that_would_swallow_a_local_url_is_warned_of(
    ors_train: Command, gym: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with caplog.at_level(logging.WARNING):
        assert ors_train("inspect", gym, "--env_name", "gym").status == 1
    (warning,) = [r.getMessage() for r in caplog.records if "proxy" in r.getMessage()]
    assert gym in warning and "http_proxy" in warning and "NO_PROXY" in warning
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert ors_train("inspect", gym, "--env_name", "gym").status == 0


# -- inspect


def test_inspect_shows_splits_tools_and_a_prompt(ors_train: Command, gym: str, diary: Path) -> None:
    said = ors_train("inspect", gym, "--env_name", "gym")
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == f"gym at {gym}"
    assert [line.split() for line in lines[2:5]] == [
        ["train", "6", "tasks"],
        ["test", "3", "tasks"],
        ["nothing", "0", "tasks"],
    ]
    assert "tool say: Say something [red]aloud[/red]." in lines
    assert "  text (string): What to say." in lines
    assert "  tone (integer, optional)" in lines
    assert 'task of train: {"task_index": 0, "n": 0}' in lines
    assert "  Say [bold]0[/bold]. ␛[31m" in lines  # no control character reaches the terminal
    until(lambda: happened(diary, "setup") == happened(diary, "teardown"))


def test_inspect_takes_a_split_and_a_task_and_speaks_json(ors_train: Command, gym: str) -> None:
    found = json.loads(ors_train("inspect", gym, "--env_name", "gym", "--split", "test", "--task", "1", "--json").out)
    assert found["environment"] == "gym"
    assert found["address"] == gym
    assert found["splits"] == {"train": 6, "test": 3, "nothing": 0}
    assert (found["split"], found["task"]["task_index"], found["task"]["n"]) == ("test", 1, 7)
    assert found["prompt"] == "Say [bold]7[/bold]. \x1b[31m"
    assert found["tools"][0]["parameters"]["properties"]["tone"]["default"] == 3


def test_inspect_takes_the_first_environment_and_says_so(
    ors_train: Command, gym: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert json.loads(ors_train("inspect", gym, "--json").out)["environment"] == "gym"
    assert "serves gym, bare: taking 'gym'" in caplog.text


def test_inspect_renders_the_prompt_as_a_model_reads_it(ors_train: Command, gym: str, tiny_model: Path) -> None:
    said = ors_train("inspect", gym, "--env_name", "gym", "--model", tiny_model)
    assert "<|im_start|>user\n  Say [bold]0[/bold]." in said.out
    assert '{"type": "function", "function": {"name": "say"' in said.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "6"), "split 'train' has tasks 0 to 5, not 6"),
        (("--task", "-1"), "split 'train' has tasks 0 to 5, not -1"),
        (("--split", "tset"), "has no split 'tset'; it has: train, test, nothing"),
        (("--split", "nothing"), "split 'nothing' has no tasks"),
        (("--model", "/no/such/model"), "model '/no/such/model': there is no such folder"),
    ],
)
def test_inspect_says_what_is_not_there(ors_train: Command, gym: str, words: tuple[str, ...], said: str) -> None:
    assert said in one_line(ors_train("inspect", gym, "--env_name", "gym", *words))


def test_inspect_of_nothing_names_it(ors_train: Command) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert url in one_line(ors_train("inspect", url))
