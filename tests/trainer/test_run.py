"""The folder that a run leaves: what is written when, what a resumed run finds, and what is never left behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from trainer.ors.errors import ConfigurationError
from trainer.run import RunFolder, checkpoint_step, rotate, share


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def checkpoint(run: Path, name: str, step: int) -> Path:
    path = run / name
    path.mkdir(parents=True)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


def rollout(step: int, phase: str = "train") -> str:
    return json.dumps({"step": step, "mode": "train" if phase == "train" else "eval", "phase": phase}) + "\n"


def test_a_folder_that_never_began_is_taken_away_with_its_parents(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    folder.abandon()
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_else_put_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    folder = RunFolder(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "note").write_text("mine")
    folder.abandon()
    assert (tmp_path / "a" / "b" / "note").read_text() == "mine"


@pytest.mark.parametrize("below", ["file/run", "file"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=f"the run folder {tmp_path / below} cannot be written: "):
        RunFolder(tmp_path / below)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        RunFolder(Path("/proc/self/run"))


def test_run_json_tells_how_a_run_began_and_ended(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert not folder.begun
    folder.begin(model="m", seed=3)
    began = folder.recorded()
    assert began["status"] == "running" and began["finished"] is None and began["seed"] == 3
    assert began["versions"]["trl"]
    folder.update(step=4)
    folder.trained(2.5)
    folder.end("failed", "why")
    ended = folder.recorded()
    assert (ended["status"], ended["message"], ended["step"]) == ("failed", "why", 4)
    assert ended["seconds"]["training"] == 2.5
    assert ended["finished"] >= ended["started"]


def test_a_resumed_run_counts_its_time_on_and_drops_the_old_traceback(tmp_path: Path) -> None:
    first = RunFolder(tmp_path)
    first.begin()
    first.trained(100.0)
    first.end("failed")
    (tmp_path / "error.txt").write_text("Traceback")
    second = RunFolder(tmp_path)
    second.begin(resumed_from=3)
    second.trained(1.0)
    second.end("finished")
    assert second.recorded()["seconds"]["training"] == 101.0
    assert not (tmp_path / "error.txt").exists()


def test_the_command_is_kept_without_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["/x/trainer/cli.py", "train", "--url", "http://me:hunter2@h/p", "--hub_token", "hunter2", "--a", "b c"]
    monkeypatch.setattr(sys, "argv", words)
    folder = RunFolder(tmp_path)
    folder.begin()
    assert folder.recorded()["command"] == "ors-train train --url http://h/p --hub_token … --a 'b c'"


def test_a_metric_that_is_no_number_is_null(tmp_path: Path) -> None:
    RunFolder(tmp_path).metrics({"step": 1, "reward": float("nan"), "loss": float("inf"), "n": 2})
    assert rows(tmp_path / "metrics.jsonl") == [{"step": 1, "reward": None, "loss": None, "n": 2}]


def test_only_the_main_process_writes(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, writes=False)
    folder.begin()
    folder.metrics({"step": 1})
    folder.evaluation("before", {})
    folder.go_back_to(0)
    folder.end("finished")
    assert list(tmp_path.iterdir()) == []


def test_the_last_checkpoint_is_the_one_of_the_latest_step_that_is_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.last_checkpoint() is None
    for step in (9, 10):
        checkpoint(tmp_path, f"checkpoint-{step}", step)
    (tmp_path / "checkpoint-11").mkdir()
    checkpoint(tmp_path, "checkpoint-best", 12)
    torn = checkpoint(tmp_path, "checkpoint-13", 13)
    (torn / "trainer_state.json").write_text('{"global_st')
    assert folder.last_checkpoint() == tmp_path / "checkpoint-10"
    assert checkpoint_step(tmp_path / "checkpoint-best") == 12
    assert checkpoint_step(torn) is None
    assert folder.holds_a_run()


def test_going_back_leaves_every_step_once_and_keeps_the_rest_aside(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (1, 2, 3):
        folder.metrics({"step": step})
    folder.evaluation("before", {"split": "test"})
    folder.evaluation("after", {"split": "test"})
    lines = [rollout(0, "before"), rollout(1), rollout(2), rollout(3), rollout(3, "after"), '{"step": 3, "mo']
    (tmp_path / "rollouts.jsonl").write_text("".join(lines))
    folder.go_back_to(2)
    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 2]
    assert (tmp_path / "rollouts.jsonl").read_text() == "".join(lines[:3])
    assert (tmp_path / "rollouts.before-resume.jsonl").read_text() == "".join(lines[3:]) + "\n"
    assert list(folder.evaluations()) == ["before"]


def test_lines_that_a_crash_cut_are_glued_to_no_other(tmp_path: Path) -> None:
    folder, file, aside = RunFolder(tmp_path), tmp_path / "rollouts.jsonl", tmp_path / "rollouts.before-resume.jsonl"
    for end in ('{"step": 3, "mo', rollout(3)[:-1]):
        file.write_text(rollout(1) + rollout(2) + end)
        folder.go_back_to(1)
        assert file.read_text() == rollout(1)
    assert aside.read_text() == rollout(2) + '{"step": 3, "mo\n' + rollout(2) + rollout(3)
    file.write_text(rollout(1)[:-1])  # whole, but for its end
    folder.go_back_to(1)
    assert file.read_text() == rollout(1)


def test_an_evaluation_that_was_cut_short_happens_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / "rollouts.jsonl").write_text(rollout(0, "before"))
    folder.go_back_to(0)
    assert (tmp_path / "rollouts.jsonl").read_text() == ""


def test_going_back_in_a_whole_folder_leaves_no_file_aside(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics({"step": 1})
    folder.go_back_to(1)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_model_can_be_read_by_whoever_may_read_new_files_its_folders_too(tmp_path: Path) -> None:
    templates = tmp_path / "model" / "additional_chat_templates"  # as transformers writes more than one
    templates.mkdir(parents=True, mode=0o700)
    files = [tmp_path / "model" / "model.safetensors", templates / "tool_use.jinja"]
    for file in files:
        file.touch(0o600)
    before = os.umask(0o027)
    try:
        share(tmp_path / "model")
    finally:
        os.umask(before)
    assert [oct(path.stat().st_mode & 0o777) for path in (templates, *files)] == ["0o750", "0o640", "0o640"]


def test_a_run_is_rotated_to_the_next_free_name(tmp_path: Path) -> None:
    run = tmp_path / "demo"
    assert rotate(run) is None
    for number in (1, 2):
        RunFolder(run).begin(seed=number)
        assert rotate(run) == tmp_path / f"demo-{number}"
    assert not run.exists()
    assert json.loads((tmp_path / "demo-2" / "run.json").read_text())["seed"] == 2
    run.mkdir()
    assert rotate(run) is None


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        ([".cache", "lost+found"], None),  # a fresh volume's
        (["README.md", "run.json"], None),
        (["README.md", "checkpoint-3"], None),  # TRL's own, without a run.json
        (["README.md"], "README.md"),
        (["d", "eval.json", "b", "a"], "a, b, d, …"),
    ],
)
def test_what_is_no_run_is_named_and_stays(tmp_path: Path, names: list[str], listed: str | None) -> None:
    for name in names:
        (checkpoint(tmp_path, name, 3) if name.startswith("checkpoint") else tmp_path / name).touch()
    folder = RunFolder(tmp_path)
    if listed is None:
        folder.check_alone()
    else:
        with pytest.raises(ConfigurationError) as refused:
            folder.check_alone()
        said = f"{tmp_path} holds other things than a run ({listed}): choose another --output_dir"
        assert str(refused.value) == said
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_folder_that_holds_nothing_to_keep_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "demo" / "lost+found").mkdir(parents=True)
    assert rotate(tmp_path / "demo") is None
    assert (tmp_path / "demo" / "lost+found").is_dir()


def test_a_folder_of_other_things_is_not_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thesis.tex").write_text("")
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path, Path(".")):
        with pytest.raises(ConfigurationError, match=r"holds other things than a run \(thesis.tex\): choose another"):
            rotate(path)
    with pytest.raises(ConfigurationError, match=r"thesis.tex cannot be used: Not a directory"):
        rotate(tmp_path / "thesis.tex")
