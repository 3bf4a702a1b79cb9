"""Which rollouts the report shows, and how: chosen alike every time, harmless whatever a model printed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import run_folders as folders
from tests.trainer.page import Element, read_page
from trainer.report import write_report
from trainer.report_run import SAMPLES, read_run
from trainer.report_sample import WINDOW, Mark, Sampler

ESCAPE = "\x1b"
TURN = "\u202e"


def cards(run: Path) -> list[Element]:
    return read_page(write_report(run)).find("article")


def one_card(run: Path, row: dict[str, Any]) -> Element:
    folders.write_lines(folders.empty_run(run) / "rollouts.jsonl", [row])
    (card,) = cards(run)
    return card


def marks(total: int, *, group_size: int = 8) -> list[Mark]:
    """A run whose rewards are 1 for every fourth rollout, None for every eighth, else 0."""
    made = []
    for index in range(total):
        reward = None if index % 8 == 0 else float(index % 4 == 1)
        made.append(Mark(index * 100, index // 64, "echo", index // group_size, reward))
    return made


def chosen(rows: list[Mark]) -> tuple[list[Mark], list[Mark]]:
    sampler = Sampler()
    for row in rows:
        sampler.add(row)
    return sampler.choose(SAMPLES)


def test_twenty_rollouts_are_shown_ten_from_each_end(tmp_path: Path) -> None:
    run = read_run(folders.finished_demo(tmp_path))
    assert (len(run.early), len(run.late)) == (10, 10)
    assert max(row["step"] for row in run.early) <= 5
    assert min(row["step"] for row in run.late) >= folders.DEMO_STEPS - 4


def test_the_choice_is_the_same_every_time_and_spread_over_groups() -> None:
    early, late = chosen(marks(5000))
    assert (early, late) == chosen(marks(5000))
    for sample in (early, late):
        assert len({mark.group for mark in sample}) == SAMPLES
        assert sample == sorted(sample, key=lambda mark: mark.offset)


def test_outcomes_appear_as_often_as_they_happened() -> None:
    for sample in chosen(marks(5000)):
        counts = Counter("unscored" if mark.reward is None else mark.reward for mark in sample)
        assert abs(counts["unscored"] - 10 / 8) < 1
        assert abs(counts[1.0] - 10 / 4) < 1


@pytest.mark.parametrize("total", [1, 2, 3, 19, 20, 21, 64])
def test_a_short_run_shows_no_rollout_twice(total: int) -> None:
    early, late = chosen(marks(total))
    offsets = [mark.offset for mark in early + late]
    assert len(offsets) == len(set(offsets)) == min(total, 2 * SAMPLES)


def test_what_is_kept_does_not_grow_with_the_run() -> None:
    sampler = Sampler()
    for mark in marks(40 * WINDOW):
        sampler.add(mark)
    kept = [value for value in vars(sampler).values() if not isinstance(value, int)]
    assert [len(value) for value in kept] == [WINDOW, WINDOW]
    assert sampler.total == 40 * WINDOW


def test_rollouts_are_read_line_by_line_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = folders.finished_demo(tmp_path)
    parsed: list[int] = []
    parse = json.loads

    def counting(line: bytes) -> object:
        parsed.append(len(line))
        return parse(line)

    monkeypatch.setattr("trainer.report_run.json.loads", counting)
    read_run(run)
    logs = (run / "rollouts.jsonl", run / "metrics.jsonl")
    lines = [line for log in logs for line in log.read_bytes().splitlines(keepends=True)]
    files = [(run / name).read_bytes() for name in ("run.json", "eval.json")]
    assert len(parsed) == len(lines) + len(files) + 2 * SAMPLES
    assert max(parsed) == max(map(len, lines + files))


def test_evaluation_rollouts_are_shown_only_where_nothing_was_trained(tmp_path: Path) -> None:
    run = folders.empty_run(tmp_path)
    held_out = [folders.rollout(0, task, mode="eval", phase="before", split="test") for task in range(4)]
    folders.write_lines(run / "rollouts.jsonl", held_out)
    page = read_page(write_report(run))
    assert len(page.find("article")) == 4
    assert "From evaluation" in page.find("section", id_="rollouts")[0].text()
    folders.write_lines(run / "rollouts.jsonl", [*held_out, folders.rollout(1, 7)])
    (card,) = cards(run)
    assert "task 7" in card.text()


def test_a_card_tells_the_rollout_in_order(tmp_path: Path) -> None:
    wrong = folders.call("ecko", result="There is no tool ecko.", reward=None, error="unknown_tool", finished=False)
    row = folders.rollout(3, 12, calls=[wrong, folders.call(seconds=0.25)])
    row["completion"].append({"role": "assistant", "content": "All done."})
    card = one_card(tmp_path, row)
    assert card.find("header")[0].text() == "step 3 · echo · train · task 12 reward 1"
    assert card.find("p", class_="meta")[0].text() == "finished by the environment · open 31 ms, calls 0.26 s"
    assert [event.text() for event in card.find(class_="event")] == [
        "user Repeat exactly, with the echo tool: quiet harbour",
        'tool call unknown tool 5 ms ecko(text="quiet harbour") There is no tool ecko.',
        'tool call reward 1 · 0.25 s echo(text="quiet harbour") Correct.',
        "assistant All done.",
    ]


def test_a_call_that_cannot_be_parsed_is_shown_as_what_the_model_wrote(tmp_path: Path) -> None:
    row = folders.rollout(calls=[folders.call()])
    row["completion"].append({"role": "assistant", "content": '<tool_call>{"name": "ec'})
    row["calls"].append(folders.call("", arguments={}, result="", reward=None, error="malformed_call", seconds=0))
    assert [event.text() for event in one_card(tmp_path, row).find(class_="event")][-1] == (
        'assistant call that cannot be parsed <tool_call>{"name": "ec'
    )


def test_an_unscored_rollout_says_why(tmp_path: Path) -> None:
    error = f"could not connect to http://reader:{folders.SECRET}@db.example"
    card = one_card(tmp_path, folders.rollout(calls=[], ending="open_failed", error=error))
    assert card.find("b", class_="unscored")[0].text() == "unscored"
    assert "session did not open" in card.text()
    assert card.find(class_="error")[0].text() == "could not connect to http://db.example"


def test_a_call_that_was_cut_off_is_shown_as_not_carried_out(tmp_path: Path) -> None:
    row = folders.rollout(ending="length", reward=None)
    row["calls"] = []
    row["completion"] = row["completion"][:1]
    assert "not carried out" in one_card(tmp_path, row).text()


HOSTILE = (
    "<script>alert(1)</script></pre></textarea><img src=http://evil.example/x onerror=alert(1)>"
    f"{ESCAPE}[31mred{TURN}\x00&amp;\ud800"
)


def test_whatever_was_written_stays_text(tmp_path: Path) -> None:
    calls = [folders.call(HOSTILE, arguments={HOSTILE: HOSTILE}, result=HOSTILE, error=HOSTILE)]
    row = folders.rollout(calls=calls, environment=HOSTILE, ending=HOSTILE, error=HOSTILE, task_index=HOSTILE)
    row["prompt"] = [{"role": HOSTILE, "content": [{"type": HOSTILE}, {"type": "text", "text": HOSTILE}]}]
    run = folders.empty_run(tmp_path)
    told = dict.fromkeys(("model", "message", "command", "started", "status"), HOSTILE)
    environments = [{"name": name + HOSTILE, "url": f"http://{HOSTILE}", "split": HOSTILE} for name in ("a", "b")]
    folders.write_json(run / "run.json", folders.facts(**told, versions={HOSTILE: HOSTILE}, environments=environments))
    folders.write_json(run / "eval.json", {"after": {"split": HOSTILE, "tasks": 1, "sampled": {"success": 1}}})
    folders.write_lines(run / "rollouts.jsonl", [row])
    folders.write_lines(run / "metrics.jsonl", [{"step": 1, "reward": 1, f"env/{HOSTILE}/reward": 1}])
    page = read_page(write_report(run))
    assert not page.find("script") and not page.find("img") and not page.find("textarea")
    assert not [name for found in page.walk() for name in found.attributes if name.startswith("on")]
    text = page.find("section", id_="rollouts")[0].raw()
    assert "<script>alert(1)</script></pre></textarea>" in text
    assert "\u241b[31mred\\u202e\u2400&amp;\\ud800" in text
    assert not set(page.raw()) & {ESCAPE, TURN, "\x00", "\ud800"}


def test_long_text_is_folded_and_cut_with_a_count(tmp_path: Path) -> None:
    long = "head " + "x" * 100_000 + " tail"
    card = one_card(tmp_path, folders.rollout(calls=[folders.call(result=long)]))
    (folded,) = card.find("details")
    assert folded.find("summary")[0].text().startswith("head xxx")
    assert folded.find("p", class_="cut")[0].text() == "… 98,210 characters left out …"
    assert folded.raw().rstrip().endswith("x tail")
    assert len(card.raw()) < 3000


def test_a_rollout_of_many_turns_keeps_its_beginning_and_end(tmp_path: Path) -> None:
    calls = [folders.call(arguments={"text": f"try {turn}"}) for turn in range(200)]
    card = one_card(tmp_path, folders.rollout(calls=calls))
    assert "… 189 more turns and calls left out …" in card.text()
    assert "try 0" in card.text() and "try 199" in card.text() and "try 100" not in card.text()


def test_arguments_of_several_lines_are_set_out_as_lines(tmp_path: Path) -> None:
    card = one_card(
        tmp_path, folders.rollout(calls=[folders.call("run", arguments={"code": "a = 1\nprint(a)\n", "n": 2})])
    )
    assert 'run(code="""\na = 1\nprint(a)\n""", n=2)' in card.raw()


ODD_ROLLOUTS: dict[str, dict[str, Any]] = {
    "nothing in it": {},
    "nulls": dict.fromkeys(folders.rollout(), None),
    "texts where lists belong": {
        "step": "3",
        "prompt": "hello",
        "completion": "bye",
        "calls": "none",
        "seconds": "slow",
    },
    "arguments that are no object": folders.rollout(calls=[folders.call(arguments='{"text": "unfinis')]),
    "a result that is no text": folders.rollout(calls=[folders.call(result={"rows": [1, 2]}, error=["crash"])]),
    "a reward that is no number": folders.rollout(reward=float("nan")),
}


@pytest.mark.parametrize("row", ODD_ROLLOUTS.values(), ids=ODD_ROLLOUTS.keys())
def test_an_odd_rollout_still_has_its_card(tmp_path: Path, row: dict[str, Any]) -> None:
    shown = one_card(tmp_path, row).find("b")[0].text()
    assert shown == ("reward 1" if row.get("reward") == 1.0 else "unscored")
