"""`ors-train eval`: a model on a split."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.servers import free_port
from tests.trainer.commands import Command, happened, one_line, rows, started, written
from tests.trainer.conftest import until
from tests.trainer.scripted_server import Protocol, Reply, Request, scripted

QUICK = ("--max_completion_length", 6, "--batch", 4)


def test_the_result_is_a_line_and_json(
    ors_train: Command, gym: str, diary: Path, tiny_model: Path, tmp_path: Path
) -> None:
    result, log = tmp_path / "eval.json", tmp_path / "rollouts.jsonl"
    words = ("--url", gym, "--env_name", "gym", "--rollouts", 2, "--json", result, "--rollouts_file", log)
    said = ors_train("eval", "--model", tiny_model, *words, *QUICK)
    assert said.status == 0, said.err
    assert said.out.startswith(f"{tiny_model} on test: success 0.000 sampled (95 % 0.00 to 0.56, 3 tasks, 6 rollouts")
    assert said.out.count("\n") == 1
    found = json.loads(result.read_text())
    assert (found["split"], found["tasks"], found["rollouts_per_task"]) == ("test", 3, 2)
    assert found["sampled"]["n"] == 6 and found["greedy"]["n"] == 3
    assert {row["mode"] for row in rows(log)} == {"eval"} and len(rows(log)) == 9
    until(lambda: happened(diary, "setup") == happened(diary, "teardown"))


def test_a_training_file_says_where_and_how_but_not_on_what(
    ors_train: Command, gym: str, tiny_model: Path, tmp_path: Path
) -> None:
    """Weights, indices, batch sizes and checkpoints of training are no business of an evaluation."""
    entries = [
        {"url": gym, "env_name": "gym", "label": "one", "weight": 3, "indices": [0], "eval_tasks": 1},
        {"url": gym, "env_name": "gym", "label": "two", "weight": 1, "num_tasks": 2, "eval_split": "train"},
    ]
    training = {
        "num_generations": 8,
        "generation_batch_size": 64,
        "resume": "auto",
        "eval_strategy": "steps",
        "eval_on_start": True,
        "do_eval": True,
        "load_best_model_at_end": True,
        "mixture_size": 4,
        "beta": 0.1,
    }
    file = written(tmp_path / "run.yaml", environments=entries, output_dir=str(tmp_path / "run"), **training)
    log = tmp_path / "rollouts.jsonl"
    words = ("eval", "--model", tiny_model, "--config", file, "--rollouts", 1, *QUICK)
    said = ors_train(*words, "--rollouts_file", log, "--json", tmp_path / "eval.json")
    assert said.status == 0, said.err
    assert "on test, train: " in said.out
    played = {(row["environment"], row["split"], row["task_index"]) for row in rows(log)}
    assert played == {("one", "test", 0), *(("two", "train", at) for at in range(6))}
    found = json.loads((tmp_path / "eval.json").read_text())
    for way in ("sampled", "greedy"):
        assert {name: part["n"] for name, part in found[way]["environments"].items()} == {"one": 1, "two": 6}
    assert said.out.endswith("; one 0.000 sampled, 0.000 greedy; two 0.000 sampled, 0.000 greedy\n")
    assert not (tmp_path / "run").exists()
    log.unlink()
    assert ors_train(*words, "--rollouts_file", log, "--split", "test", "--num_tasks", 2).status == 0
    played = {(row["environment"], row["split"], row["task_index"]) for row in rows(log)}
    assert played == {("one", "test", 0), ("one", "test", 1)}  # both would play the same tasks


def test_entries_that_only_their_split_tells_apart_are_one_environment(
    ors_train: Command, gym: str, tiny_model: Path, tmp_path: Path
) -> None:
    entries = [{"url": gym, "env_name": "gym", "split": split} for split in ("train", "test")]
    file = written(tmp_path / "run.yaml", environments=entries)
    said = ors_train("eval", "--model", tiny_model, "--config", file, "--rollouts", 1, *QUICK)
    assert said.status == 0, said.err
    assert "3 tasks, 3 rollouts" in said.out


def test_a_task_that_is_broken_does_not_cost_the_others_their_result(
    ors_train: Command, workshop: str, tiny_model: Path, tmp_path: Path
) -> None:
    """Its last task cannot be opened, and makes up the last batch."""
    where = ("--url", workshop, "--split", "failing", "--json", tmp_path / "eval.json")
    said = ors_train("eval", "--model", tiny_model, *where, "--rollouts", 1, "--batch", 3, "--max_completion_length", 6)
    assert said.status == 0, said.err
    assert json.loads((tmp_path / "eval.json").read_text())["sampled"]["judged"] == 3
    assert "4 rollouts, 3 of them judged" in said.out


def test_an_environment_that_opens_no_session_is_said_beside_what_there_is(
    ors_train: Command, tiny_model: Path, tmp_path: Path
) -> None:
    async def refuse(request: Request, reply: Reply) -> None:
        await reply.json({"detail": "no more today"}, 400)

    with scripted(Protocol(create=refuse)) as server:
        where = ("--url", server.url, "--json", tmp_path / "eval.json")
        said = ors_train("eval", "--model", tiny_model, *where, "--rollouts", 1, *QUICK)
    assert said.status == 1
    assert said.err.startswith("ors-train eval: the evaluation is not whole: ") and "no more today" in said.err
    assert json.loads((tmp_path / "eval.json").read_text())["sampled"]["success"] is None


def test_what_cannot_be_evaluated_is_said_in_a_line(ors_train: Command, gym: str, tiny_model: Path) -> None:
    where = ("--url", gym, "--env_name", "gym", *QUICK)
    assert "no split 'tset'; it has: train, test, nothing" in one_line(
        ors_train("eval", "--model", tiny_model, *where, "--split", "tset")
    )
    assert "there is no such folder" in one_line(ors_train("eval", "--model", "./nothing", *where))
    for flag, value, rule in (("success_at", "nan", "is a number, not nan"), ("temperature", 0, "is above 0, not 0.0")):
        said = one_line(ors_train("eval", "--model", tiny_model, *where, f"--{flag}", value))
        assert said == f"ors-train eval: {flag} {rule}"


@pytest.mark.parametrize("flag", ["--json", "--rollouts_file"])
def test_a_result_that_has_nowhere_to_go_is_said_before(
    ors_train: Command, gym: str, tiny_model: Path, tmp_path: Path, flag: str
) -> None:
    url = f"http://127.0.0.1:{free_port()}"  # nothing is asked of it
    (tmp_path / "file").touch()
    for path, why in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none" / "x.json", "No such file or directory"),
        (tmp_path / "file" / "x.json", "Not a directory"),
        (Path("/proc/x.json"), "No such file or directory"),  # where the folder says that it may be written
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        said = one_line(ors_train("eval", "--model", tiny_model, "--url", url, flag, path))
        assert said == f"ors-train eval: {flag} {path} cannot be written: {why}"
    said = one_line(
        ors_train("eval", "--model", tiny_model, "--url", gym, "--split", "none", flag, tmp_path / "x.json")
    )
    assert "no split" in said
    assert os.listdir(tmp_path) == ["file"]


def test_a_result_that_cannot_be_written_in_the_end_has_been_shown(
    ors_train: Command, gym: str, tiny_model: Path
) -> None:
    where = ("--url", gym, "--env_name", "gym", "--num_tasks", 1, "--json", "/dev/full")
    said = ors_train("eval", "--model", tiny_model, *where, "--rollouts", 1, *QUICK)
    assert said.status == 1
    assert said.out.startswith(f"{tiny_model} on test: success ")
    assert said.err == "ors-train eval: --json /dev/full could not be written: No space left on device\n"


def test_a_result_that_cannot_be_shown_is_written(gym: str, tiny_model: Path, tmp_path: Path) -> None:
    result = tmp_path / "eval.json"
    where = ("--url", gym, "--env_name", "gym", "--num_tasks", 1, "--json", result)
    with (
        open("/dev/full", "w") as full,
        started(("eval", "--model", tiny_model, *where, "--rollouts", 1, *QUICK), stdout=full) as process,
    ):
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.endswith("standard output cannot be written: No space left on device\n")
    assert json.loads(result.read_text())["rollouts_per_task"] == 1
