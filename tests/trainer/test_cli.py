"""What `ors-train` says: help, and one line for what cannot be done, with nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ROOT
from tests.trainer.commands import Command, one_line
from trainer import cli

VERBS = ("demo", "train", "eval", "inspect", "report")


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
    from trainer.arguments import OF_AN_ENTRY, RunArguments

    told = ors_train("train", "--url", "x", "--help").out
    assert all(name in told for name in (*RunArguments.__dataclass_fields__, *OF_AN_ENTRY))


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
        (
            ("eval", "--model", "m", "--url", "http://h", "--api-key", "hunter2"),
            "api_key is a key of an entry of environments: in a --config file",
        ),
        (("inspect", "--api-key"), "argument --api_key: expected one argument"),
        (("inspect", "--env-name=e", "--no-such", "--task", "x"), "argument --task: invalid int value: 'x'"),
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
        (("demo", "--seed", "-1"), "--seed is between 0 and 4294967295, not -1"),
        (("eval", "--model", "m", "--url", "http://h", "--seed", "-1"), "--seed is between 0 and 4294967295, not -1"),
        (("eval", "--model", "m", "--url", "http://h", "--rollouts", "0"), "--rollouts is at least 1, not 0"),
        (("eval", "--model", "m", "--url", "http://h", "--batch", "0"), "--batch is at least 1, not 0"),
        (("eval", "--model", "m", "--url", "http://h", "--num_tasks", "0"), "--num_tasks is at least 1, not 0"),
        (
            ("eval", "--model", "m", "--url", "http://h", "--json", "/no/such/x.json"),
            "--json /no/such/x.json cannot be written: No such file or directory",
        ),
        (("report", "/no/such/run"), "no report: /no/such/run is not a folder"),
    ],
)
def test_a_number_or_path_that_makes_no_sense_is_said_at_once(
    ors_train: Command, words: tuple[str, ...], said: str
) -> None:
    assert one_line(ors_train(*words)) == f"ors-train {words[0]}: {said}"


def test_the_demo_refuses_a_folder_of_other_things_before_anything_starts(ors_train: Command, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    said = one_line(ors_train("demo", "--output_dir", tmp_path))
    assert said == f"ors-train demo: {tmp_path} holds other things than a run (README.md): choose another --output_dir"
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("words", [("--resume",), ("--resume", "auto")])
@pytest.mark.parametrize("there", [True, False])
def test_a_demo_is_not_resumed_where_there_is_no_run(
    ors_train: Command, tmp_path: Path, words: tuple[str, ...], there: bool
) -> None:
    run = tmp_path / "demo"
    if there:
        (run / "lost+found").mkdir(parents=True)
    said = one_line(ors_train("demo", "--output_dir", run, *words))
    assert said == f"ors-train demo: {run} holds no run to go on with: leave --resume out to start one"
    assert [path.name for path in tmp_path.rglob("*")] == (["demo", "lost+found"] if there else [])


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
