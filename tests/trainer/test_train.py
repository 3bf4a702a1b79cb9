"""Whole runs of `ors-train train` with a tiny model: what they leave, and how they go on when they are done."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.servers import serve_script
from tests.trainer.commands import GYM, SMALL, Command, happened, record, rows, steps, told, trained, written
from tests.trainer.conftest import until


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "first"


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    return tmp_path / "diary.jsonl"


@pytest.mark.slow
def test_a_run_leaves_a_folder_that_starts_it_again_and_holds_no_secret(
    ors_train: Command, tiny_model: Path, run: Path, diary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        name: f"hunter{number}-x7q" for number, name in enumerate(("KEY", "TEAM", "JUDGE", "PASSWORD", "HF", "HUB"))
    }
    for name, value in secrets.items():
        monkeypatch.setenv(f"MY_{name}", value)
    with serve_script(GYM, env={"DIARY": str(diary)}) as url:
        monkeypatch.setenv("GYM", url.removeprefix("http://"))
        first = {
            "url": "http://me:${MY_PASSWORD}@${GYM}",
            "env_name": "gym",
            "label": "first",
            "weight": 3,
            "eval_split": "test",
            "eval_tasks": 2,
        }
        second = {
            "url": url,
            "env_name": "gym",
            "label": "second",
            "weight": 1,
            "split": "test",
            "indices": [0, 2],
            "api_key": "${MY_KEY}",
            "headers": {"X-Team": "${MY_TEAM}"},
            "secrets": {"judge": "MY_JUDGE"},
        }
        file = written(
            tmp_path / "run.yaml",
            model_name_or_path=str(tiny_model),
            model_init_kwargs={"token": "${MY_HUB}"},
            environments=[first, second],
            mixture_size=8,
        )
        words = ("--output_dir", run, "--eval_rollouts", 1, "--save_steps", 2, "--hub_token", "${MY_HF}")
        said = ors_train("train", "--config", file, *SMALL, *words)
        assert said.status == 0, said.err
        assert said.out == ""
        until(lambda: happened(diary, "setup") == happened(diary, "teardown"))

        names = {
            "run.json",
            "metrics.jsonl",
            "rollouts.jsonl",
            "eval.json",
            "config.yaml",
            "report.html",
            "model",
            "README.md",
        }
        assert {path.name for path in run.iterdir()} == names | {"checkpoint-2", "checkpoint-3"}
        modes = {path.stat().st_mode & 0o777 for path in (run / "model").iterdir()}
        assert modes == {(run / "run.json").stat().st_mode & 0o777}  # who may read the run may read its model
        kept = record(run)
        assert (kept["status"], kept["step"], kept["steps"]) == ("finished", 3, 3)
        assert [(e["name"], e["split"], e["num_tasks"]) for e in kept["environments"]] == [
            ("first", "train", 6),
            ("second", "test", 2),
        ]
        assert steps(run) == [1, 2, 3]
        assert trained(run) == [1] * 4 + [2] * 4 + [3] * 4
        readme = (run / "README.md").read_text()
        assert "Status: finished\n(3 of 3 steps" in readme and "| `second` | " in readme
        assert "- `report.html`" in readme and "ors-train eval --model model --config config.yaml" in readme
        assert "huggingface.co" not in readme and "None" not in readme
        scores = json.loads((run / "eval.json").read_text())
        assert list(scores) == ["before", "after"]
        assert scores["after"]["split"] == "test" and scores["after"]["tasks"] == 2
        assert "environments" not in scores["after"]["sampled"]  # both would play the same tasks: the first does
        assert "step 1/3  reward none  scored 0%" in said.err  # lines, where there is no terminal
        warning, last = said.err.splitlines()[-2:]
        assert last == f"finished: 3 steps; all of it is in {run}"
        assert warning.startswith("warning: nothing was scored in 3 logged steps, so nothing was learned: ")
        assert "unfinished_reward" in warning and "docs/rewards.md" in warning
        assert "No rollout was scored in 3 logged steps" in (run / "report.html").read_text()

        reached = diary.read_text()
        assert all(secrets[name] in reached for name in ("KEY", "TEAM", "JUDGE"))
        assert "Basic bWU6aHVudGVyMy14N3E=" in reached  # me:hunter3-x7q
        for path in (path for path in run.rglob("*") if path.is_file()):
            assert not [name for name, value in secrets.items() if value.encode() in path.read_bytes()], path
        assert "-x7q" not in said.err

        again = run.with_name("again")
        assert ors_train("train", "--config", run / "config.yaml", "--output_dir", again).status == 0
        tasks = [[(r["environment"], r["task_index"]) for r in rows(at / "rollouts.jsonl")] for at in (run, again)]
        assert tasks[0] == tasks[1]


@pytest.mark.slow
def test_a_finished_run_says_so_and_goes_on_when_asked_for_more(
    ors_train: Command, tiny_model: Path, run: Path, diary: Path
) -> None:
    with serve_script(GYM, env={"DIARY": str(diary)}) as url:
        words = (
            "train",
            "--url",
            url,
            "--env_name",
            "gym",
            "--model_name_or_path",
            tiny_model,
            "--output_dir",
            run,
            *SMALL,
        )
        fresh = ors_train(*words, "--resume", "auto", "--eval_split", "test", "--eval_rollouts", 1)
        assert fresh.status == 0, fresh.err
        assert "no checkpoint to go on from: from the start" in fresh.err
        opened, before = happened(diary, "setup"), (run / "run.json").read_text()
        same = ors_train(*words, "--resume", "auto")
        assert (same.status, same.err) == (0, f"{run} is finished: there is nothing to go on with\n")
        assert (happened(diary, "setup"), (run / "run.json").read_text()) == (opened, before)
        with told("transformers.trainer") as loading:
            evaluated = ("--eval_split", "test", "--eval_rollouts", 1)
            more = ors_train(*words, "--resume", "auto", "--max_steps", "5", *evaluated)
        assert more.status == 0, more.err
        assert "going on from step 3" in more.err
        assert not [line for line in loading if "missing keys" in line]  # of weights that are tied
        assert steps(run) == [1, 2, 3, 4, 5]
        phases = [row["phase"] for row in rows(run / "rollouts.jsonl")]
        assert phases == ["before"] * 6 + ["train"] * 20 + ["after"] * 6
        assert record(run)["resumed_from"] == 3
        other = run.with_name("other")
        elsewhere = ors_train(*words, "--resume", run / "checkpoint-5", "--output_dir", other, "--max_steps", "6")
        assert elsewhere.status == 0, elsewhere.err
        assert steps(other) == [6]
        mixed = ors_train(*words, "--resume", run / "checkpoint-3", "--output_dir", other)
        assert "holds a run" in mixed.err


@pytest.mark.slow
def test_evaluations_during_training_are_kept_and_shown(
    ors_train: Command, tiny_model: Path, run: Path, diary: Path
) -> None:
    with serve_script(GYM, env={"DIARY": str(diary)}) as url:
        where = ("--url", url, "--env_name", "gym", "--model_name_or_path", tiny_model, "--output_dir", run, *SMALL)
        when = ("--eval_on_start", "true", "--eval_strategy", "steps", "--eval_steps", 2, "--eval_split", "test")
        sizes = ("--per_device_eval_batch_size", 2, "--eval_rollouts", 1, "--mixture_size", 2)
        said = ors_train("train", *where, *when, *sizes)
    assert said.status == 0, said.err
    lines = rows(run / "metrics.jsonl")
    evaluated = [row for row in lines if "eval_reward" in row]
    assert [row["step"] for row in evaluated] == [0, 2, 3]
    assert all(key == "step" or key.startswith(("eval_", "epoch")) for row in evaluated for key in row)
    assert evaluated[-1]["eval_env/scored"] == 0
    assert [row["step"] for row in lines if "reward" in row] == [1, 2, 3]
    assert [line for line in said.err.splitlines() if "evaluation: " in line] == [
        f"step {step}/3  evaluation: reward none  scored 0%" for step in (0, 2, 3)
    ]
    assert record(run)["steps"] == 3


@pytest.mark.slow
def test_a_crash_leaves_its_traceback_in_the_folder_and_one_line(
    ors_train: Command, tiny_model: Path, run: Path, diary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        """A run that is to go on, and cannot."""
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
        (run / "rollouts.jsonl").symlink_to(run / "no such folder" / "rollouts.jsonl")

    broken()
    with serve_script(GYM, env={"DIARY": str(diary)}) as url:
        words = (
            "train",
            "--url",
            url,
            "--env_name",
            "gym",
            "--model_name_or_path",
            tiny_model,
            "--output_dir",
            run,
            *SMALL,
            "--resume",
            "auto",
        )
        said = ors_train(*words)
        assert said.status == 1
        last = said.err.rstrip().splitlines()[-1]
        assert last.startswith("ors-train train: FileNotFoundError: ")
        assert last.endswith(f"; the traceback is in {run / 'error.txt'}")
        assert "Traceback" not in said.err
        assert "Traceback" in (run / "error.txt").read_text()
        kept = record(run)
        assert kept["status"] == "failed" and kept["message"].startswith("FileNotFoundError: ")
        until(lambda: happened(diary, "setup") == happened(diary, "teardown"))
        (run / "rollouts.jsonl").unlink()
        shutil.rmtree(run)
        broken()
        with pytest.raises(FileNotFoundError):
            ors_train(*words, "--debug")
        (run / "error.txt").write_text("of the main process")
        monkeypatch.setenv("RANK", "1")
        assert ors_train(*words).err.rstrip().endswith(f"; the traceback is in {run / 'error-1.txt'}")
        assert (run / "error.txt").read_text() == "of the main process"


def test_what_an_environment_says_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    from trainer.callbacks import console

    console().print("it said: [bold]x[/bold] [/nothing] :smile: \x1b[2Jgone")
    assert capsys.readouterr().err == "it said: [bold]x[/bold] [/nothing] :smile: ␛[2Jgone\n"
