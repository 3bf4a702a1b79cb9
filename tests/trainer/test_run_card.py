"""The README.md of a run folder, as whoever opens the folder reads it."""

from __future__ import annotations

from pathlib import Path

from tests.trainer import run_folders as folders
from trainer.callbacks import Journal
from trainer.config import load
from trainer.run import RunFolder
from trainer.run_card import card
from trainer.train import keeps_model_card


def test_it_says_what_ran_and_what_came_of_it(tmp_path: Path) -> None:
    run = folders.finished_demo(tmp_path / "demo")
    (run / "model").mkdir()
    said = card(run, folders.facts(), folders.evaluation())
    assert said.startswith("# demo\n\nThe model `.cache/starter/qwen3-0.5m`, trained with GRPO")
    assert "Status: finished\n(50 of 50 steps, seed 0, " in said
    assert "| `echo` | `http://127.0.0.1:8000` | `train` | 128 |" in said
    assert "| all | 0.14 (0.10\N{EN DASH}0.19) | 0.91 (0.87\N{EN DASH}0.94) |" in said
    assert "- `rollouts.jsonl`: " in said and "error.txt" not in said
    assert "ors-train eval --model model --config config.yaml" in said
    assert 'from_pretrained("model")' in said
    assert "None" not in said and "huggingface.co" not in said


def test_a_model_that_is_not_there_is_not_offered(tmp_path: Path) -> None:
    run = folders.empty_run(tmp_path / "run")
    said = card(run, folders.facts(status="interrupted", message="stopped by a signal after step 3", step=3), {})
    assert "Status: interrupted: `stopped by a signal after step 3`\n(3 of 50 steps" in said
    assert "from_pretrained" not in said and "ors-train eval" not in said and "Success" not in said


def test_several_environments_have_a_line_each(tmp_path: Path) -> None:
    scores = folders.evaluation()
    for moment in ("before", "after"):
        sampled = scores[moment]["sampled"]
        sampled["environments"] = {"echo": dict(sampled), "sql": sampled | {"success": None, "low": None, "high": None}}
    said = card(tmp_path, folders.facts(), scores)
    assert "| `echo` | 0.14 (0.10\N{EN DASH}0.19) | 0.91 (" in said
    assert "| `sql` | \N{EN DASH} | \N{EN DASH} |" in said


def test_it_holds_no_secret_and_nothing_breaks_out_of_its_line(tmp_path: Path) -> None:
    url = f"http://reader:{folders.SECRET}@db.example:8000/?key={folders.SECRET}"
    environment = {"name": "a`b | c\n# d", "url": url, "split": "train", "num_tasks": 3}
    facts = folders.facts(status="failed", message=f"{url.partition('?')[0]} is\n\n# away", environments=[environment])
    said = card(tmp_path, facts, {})
    assert folders.SECRET not in said
    assert "| `a'b \\| c # d` | `http://db.example:8000/` | `train` | 3 |" in said
    assert "`http://db.example:8000/ is # away`" in said


def test_facts_that_are_missing_are_no_error(tmp_path: Path) -> None:
    assert card(tmp_path, {}, {"after": {}}).startswith(f"# {tmp_path.name}\n")


def test_only_the_main_process_writes_it(tmp_path: Path) -> None:
    RunFolder(tmp_path, writes=False).card()
    assert list(tmp_path.iterdir()) == []
    RunFolder(tmp_path).card()
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_it_is_there_from_the_first_checkpoint_on_unless_it_is_the_model_card(tmp_path: Path) -> None:
    Journal(RunFolder(tmp_path), card=False).on_save(None, None, None)
    assert list(tmp_path.iterdir()) == []
    Journal(RunFolder(tmp_path), card=True).on_save(None, None, None)
    assert (tmp_path / "README.md").exists()


def test_a_model_of_a_hub_keeps_its_card(tmp_path: Path) -> None:
    def kept(model: str) -> bool:
        return keeps_model_card(load(("--model_name_or_path", model, "--url", "http://h:1")))

    assert kept("some/model")
    assert not kept("starter") and not kept(str(tmp_path))
