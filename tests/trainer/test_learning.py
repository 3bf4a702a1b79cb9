"""A run that had nothing to learn from says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import serve_script
from tests.trainer import run_folders as folders
from tests.trainer.commands import GYM, SMALL, Command
from tests.trainer.page import read_page
from trainer.learning import warning
from trainer.report import write_report
from trainer.report_run import read_metrics

UNSCORED = {"reward": None, "env/scored": 0.0, "env/environment_errors": 0.0, "frac_reward_zero_std": 0.0}
ALIKE = {"reward": 1.0, "env/scored": 1.0, "env/environment_errors": 0.0, "frac_reward_zero_std": 1.0}
USEFUL = {**ALIKE, "reward": 0.5, "frac_reward_zero_std": 0.75}
FAILED = {**UNSCORED, "env/environment_errors": 1.0}


def logged(run: Path, *steps: dict[str, float | None]) -> Path:
    folders.empty_run(run)
    folders.write_json(run / "run.json", folders.facts(step=len(steps), steps=len(steps)))
    folders.write_lines(run / "metrics.jsonl", [{"step": at, **step} for at, step in enumerate(steps, 1)])
    return run


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([UNSCORED] * 3, "nothing was scored in 3 logged steps, so nothing was learned: no episode came to a grade; u"),
        ([UNSCORED], "nothing was scored in 1 logged step, "),
        ([FAILED] * 2, "nothing was scored in 2 logged steps, so nothing was learned: the environment failed every"),
        ([ALIKE, ALIKE], "no group of rollouts had two different rewards in 2 logged steps, so nothing was learned: "),
        ([ALIKE, UNSCORED], "no group of rollouts had two different rewards in 2 logged steps"),
    ],
)
def test_what_kept_a_run_from_learning_is_a_line(tmp_path: Path, steps: list[dict[str, float]], said: str) -> None:
    line = warning(read_metrics(logged(tmp_path, *steps)))
    assert line is not None and line.startswith(said) and "\n" not in line


@pytest.mark.parametrize(
    "steps", [[], [USEFUL], [UNSCORED, USEFUL], [ALIKE, USEFUL], [{"reward": 1.0}], [{"loss": 0.0}]]
)
def test_one_step_to_learn_from_is_enough(tmp_path: Path, steps: list[dict[str, float]]) -> None:
    assert warning(read_metrics(logged(tmp_path, *steps))) is None


def told(run: Path) -> tuple[str, str]:
    page = read_page(write_report(run))
    return page.find("h1")[0].text(), " ".join(found.text() for found in page.find("p", class_="lead"))


def test_the_report_begins_with_it(tmp_path: Path) -> None:
    run = logged(tmp_path, *[UNSCORED] * 3)
    title, detail = told(run)
    assert title == "No rollout was scored in 3 logged steps"
    assert detail.startswith("Nothing was learned: no episode came to a grade; unfinished_reward counts giving up")
    folders.write_json(run / "eval.json", folders.evaluation())
    assert told(run)[0] == title


def test_held_out_figures_stay_where_all_were_alike(tmp_path: Path) -> None:
    run = logged(tmp_path, ALIKE, ALIKE)
    alike = "no group of rollouts had two different rewards, so nothing was learned"
    title, detail = told(run)
    assert title == "Training reward 1.00 → 1.00" and detail.endswith(f"; {alike}")
    folders.write_json(run / "eval.json", folders.evaluation())
    title, detail = told(run)
    assert title == "Held-out success 0.14 → 0.91" and detail.endswith(f"; {alike}")


def test_steps_without_a_record_are_not_called_unfinished(tmp_path: Path) -> None:
    run = logged(tmp_path)
    folders.write_json(run / "run.json", folders.facts())
    assert told(run)[0] == "No reward is on record"


@pytest.mark.slow
def test_a_run_whose_rewards_are_all_the_same_ends_with_the_line(
    ors_train: Command, tiny_model: Path, tmp_path: Path
) -> None:
    with serve_script(GYM) as url:
        entry = {"url": url, "env_name": "gym", "unfinished_reward": 0.0}
        file = tmp_path / "run.yaml"
        folders.write_json(file, {"model_name_or_path": str(tiny_model), "environments": [entry]})
        said = ors_train("train", "--config", file, *SMALL, "--output_dir", tmp_path / "run")
    assert said.status == 0, said.err
    line = said.err.splitlines()[-2]
    assert line.startswith("warning: no group of rollouts had two different rewards in 3 logged steps, ")
