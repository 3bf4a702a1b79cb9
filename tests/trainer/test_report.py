"""report.html as a person reads it: what it says of a run, and what it makes of a folder that is not whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer import run_folders as folders
from tests.trainer.page import Element, read_page
from trainer.ors import errors
from trainer.report import ReportError, write_report
from trainer.report_run import ENVIRONMENT_ERRORS, MODEL_ERRORS

SECTIONS = ["summary", "reward", "errors", "time", "rollouts", "held-out"]


def report(run: Path) -> Element:
    path = write_report(run)
    assert path == run / "report.html"
    return read_page(path)


def section(page: Element, name: str) -> Element:
    return page.find("section", id_=name)[0]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Element:
    return report(folders.finished_demo(tmp_path_factory.mktemp("demo")))


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Element:
    return report(folders.failed_mixture(tmp_path_factory.mktemp("failed")))


def test_sections_stand_in_the_order_a_reader_asks(demo: Element) -> None:
    assert [found.attributes["id"] for found in demo.find("section")] == SECTIONS


def test_the_headline_is_the_held_out_success_before_and_after(demo: Element) -> None:
    assert demo.find("h1")[0].text() == "Held-out success 0.14 → 0.91"
    detail = "64 tasks never trained on, 256 rollouts, 95 % interval 0.87\N{EN DASH}0.94"
    assert demo.find("p", class_="lead")[0].text() == detail


def test_the_headline_does_not_claim_unseen_tasks_of_the_training_split(tmp_path: Path) -> None:
    run = folders.finished_demo(tmp_path)
    scores = folders.evaluation()["after"] | {"split": "train"}
    folders.write_json(run / "eval.json", {"before": None, "after": scores})
    page = report(run)
    assert page.find("h1")[0].text() == "Held-out success 0.91"
    assert page.find("p", class_="lead")[0].text().startswith("64 tasks of the split train, 256 rollouts")


def test_what_the_environment_failed_is_not_judged_and_shown_as_such(tmp_path: Path) -> None:
    run = folders.finished_demo(tmp_path)
    scores = folders.evaluation()
    scores["before"]["sampled"] |= {"judged": 250}
    nothing = {"success": None, "low": None, "high": None, "judged": 0, "scored": 0.0, "reward": None}
    scores["after"] = scores["after"] | {"sampled": nothing | {"n": 256}, "greedy": nothing | {"n": 64}}
    folders.write_json(run / "eval.json", scores)
    page = report(run)
    assert page.find("h1")[0].text() == "Held-out success 0.14 → \N{EN DASH}"
    detail = "64 tasks never trained on, 0 of 256 rollouts judged, 0 % of them scored"
    assert page.find("p", class_="lead")[0].text() == detail
    rows = section(page, "held-out").find("table")[0].cells()
    assert [row[3] for row in rows] == ["250 of 256", "64", "0 of 256", "0 of 64"]
    assert rows[2][1:3] == ["\N{EN DASH}", "\N{EN DASH}"]


def test_the_summary_says_what_ran(demo: Element) -> None:
    summary = section(demo, "summary")
    assert summary.find(class_="status")[0].text() == "finished"
    told = dict(zip((d.text() for d in summary.find("dt")), (d.text() for d in summary.find("dd")), strict=True))
    assert told["Model"] == ".cache/starter/qwen3-0.5m"
    assert told["Environments"] == "echo at http://127.0.0.1:8000 · train, 128 tasks"
    assert told["Steps"] == "50 of 50"
    assert told["Seed"] == "0"
    assert told["Duration"] == "3 min 29 s, training 2 min 02 s of it"
    assert "torch 2.13.0" in told["Versions"]


def test_a_failed_run_shows_its_message_without_the_password(failed: Element, tmp_path: Path) -> None:
    assert section(failed, "summary").find(class_="status")[0].text() == "failed"
    message = section(failed, "summary").find("p", class_="message")[0].text()
    assert message == "environment sql at http://db.example:8000 is away: connection refused"
    assert folders.SECRET not in failed.raw()


def test_without_an_evaluation_the_headline_is_the_training_reward(failed: Element) -> None:
    assert re.fullmatch(r"Training reward 0\.\d\d → 0\.\d\d", failed.find("h1")[0].text())
    assert "nothing was evaluated" in failed.find("p", class_="lead")[0].text()


def test_every_picture_says_what_it_shows_and_ids_are_unique(demo: Element, failed: Element) -> None:
    for page, pictures in ((demo, 3), (failed, 5)):
        labels = [drawing.attributes["aria-label"] for drawing in page.find("svg")]
        assert len(labels) == len(set(labels)) == pictures
        assert all(drawing.attributes["role"] == "img" for drawing in page.find("svg"))
        ids = [found.attributes["id"] for found in page.walk() if "id" in found.attributes]
        assert len(ids) == len(set(ids))


def test_pictures_take_their_colours_from_the_page(demo: Element) -> None:
    style = demo.find("style")[0].raw()
    assert "prefers-color-scheme: dark" in style
    drawn = " ".join(found.attributes.get("style", "") for drawing in demo.find("svg") for found in drawing.walk())
    used = set(re.findall(r"var\((--[\w-]+)\)", drawn))
    assert {"--series-0", "--muted", "--rule"} <= used
    assert all(f"{name}:" in style for name in used)
    assert not re.search("#[0-9a-f]{6}", drawn)


def test_the_reward_picture_names_coverage_and_the_held_out_marks(demo: Element) -> None:
    legend = section(demo, "reward").find("ul", class_="legend")[0].text()
    assert "mean of the scored rollouts" in legend
    assert "share of rollouts scored" in legend
    assert "◇ before, ◆ after, 95 % interval" in legend


def test_several_environments_are_compared(failed: Element) -> None:
    rows = section(failed, "reward").find("table")[0].cells()
    assert [row[:2] for row in rows] == [["echo", "288"], ["sql", "288"]]
    assert rows[0][2:] == ["100 %", "1.00", "0.000", "0.000"]
    assert rows[1][2] != "100 %"
    assert float(rows[1][5]) > 0


def test_no_errors_is_said_in_words(demo: Element) -> None:
    model, environment = section(demo, "errors").find(class_="panel")
    assert model.find("table")[0].cells()[0][:2] == ["unknown tool", "39"]
    assert environment.text() == "Environment errors None in 3,200 rollouts."


def test_errors_are_counted_by_kind(tmp_path: Path) -> None:
    run = folders.empty_run(tmp_path)
    kinds = ["unknown_tool", "bad_arguments", "bad_arguments", "malformed_call", "solar_flare"]
    rows = [folders.rollout(calls=[folders.call(error=kind, reward=None)]) for kind in kinds]
    rows += [folders.rollout(calls=[folders.call(error="crash", reward=None)] * 3)]  # one failure, met three times
    rows += [folders.rollout(calls=[], ending="open_failed", error="connection refused")] * 2
    rows += [folders.rollout(calls=[folders.call(error="unreachable")], ending="open_failed")]
    folders.write_lines(run / "rollouts.jsonl", rows)
    model, environment = (
        panel.find("table")[0].cells() for panel in section(report(run), "errors").find(class_="panel")
    )
    assert model == [
        ["unknown tool", "1", "0.111"],
        ["bad arguments", "2", "0.222"],
        ["call that cannot be parsed", "1", "0.111"],
        ["call after the end", "0", "0.000"],
    ]
    assert [row[:2] for row in environment] == [
        ["crash in a tool", "1"],
        ["timeout", "0"],
        ["unreachable", "0"],
        ["request refused", "0"],
        ["session did not open", "3"],
        ["other", "1"],
    ]


def test_every_kind_of_error_that_a_rollout_records_has_its_words() -> None:
    assert list(MODEL_ERRORS) == list(errors.MODEL_ERRORS)
    assert set(ENVIRONMENT_ERRORS) == {*errors.FAILURE_KINDS, "open_failed"}


def test_the_time_table_adds_up(demo: Element) -> None:
    rows = section(demo, "time").find("table")[0].cells()
    assert [row[0] for row in rows] == ["opening sessions", "tool calls", "generating", "forward", "backward", "other"]
    seconds = sum(float(row[1]) for row in rows)
    notes = section(demo, "time").text()
    step = re.search(r"A step took (\d+\.\d\d) s", notes)
    assert step and abs(float(step[1]) - seconds) < 0.05
    assert "Waiting for environments was 25 % of it" in notes


def test_the_held_out_table_has_both_phases_sampled_and_greedy(demo: Element) -> None:
    rows = section(demo, "held-out").find("table")[0].cells()
    assert [row[0] for row in rows] == ["before, sampled", "before, greedy", "after, sampled", "after, greedy"]
    assert rows[2][1:] == ["0.91", "0.87\N{EN DASH}0.94", "256", "100 %", "0.91"]


def test_held_out_scores_of_several_environments_are_told_apart(tmp_path: Path) -> None:
    run = folders.finished_demo(tmp_path)
    scores = folders.evaluation()
    sampled = scores["after"]["sampled"]
    none = {"success": 0.0, "low": 0.0, "high": 0.03, "judged": 120, "n": 128, "scored": 0.9375, "reward": 0.0}
    sampled["environments"] = {"echo": sampled | {"n": 128, "judged": 128}, "<i>sql": none}
    folders.write_json(run / "eval.json", scores)
    page = report(run)
    assert page.find("p", class_="lead")[0].text().endswith(", echo 0.91, <i>sql 0.00")
    rows = section(page, "held-out").find("table")[0].cells()
    assert [row[0] for row in rows][2:] == ["after, sampled", "· echo", "· <i>sql", "after, greedy"]
    assert rows[4][1:] == ["0.00", "0.00\N{EN DASH}0.03", "120 of 128", "94 %", "0.00"]


def test_the_page_asks_no_host_for_anything(demo: Element, failed: Element) -> None:
    for page in (demo, failed):
        assert not page.find("script")
        for found in page.walk():
            for name, value in found.attributes.items():
                if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
                    assert value.startswith("#"), f"{name}={value}"
                assert not re.search(r"url\((?!#)", value)
        assert "url(" not in page.find("style")[0].raw()
        assert "@import" not in page.find("style")[0].raw()
        policy = [meta.attributes.get("content") for meta in page.find("meta") if "http-equiv" in meta.attributes]
        assert "default-src 'none'; style-src 'unsafe-inline'" in policy


def test_an_empty_run_has_a_report(tmp_path: Path) -> None:
    page = report(folders.empty_run(tmp_path))
    assert page.find("h1")[0].text() == "No training step was finished"
    assert section(page, "summary").find("p", class_="message")[0].text() == "stopped by Ctrl-C"
    assert not page.find("svg")
    assert "No rollouts on record" in section(page, "rollouts").text()


@pytest.mark.parametrize("missing", ["run.json", "metrics.jsonl", "rollouts.jsonl", "eval.json"])
def test_a_missing_file_is_a_note(tmp_path: Path, missing: str) -> None:
    run = folders.finished_demo(tmp_path)
    (run / missing).unlink()
    page = report(run)
    if missing == "eval.json":  # a run need not evaluate
        assert not page.find("footer")
        assert "Nothing was evaluated" in section(page, "held-out").text()
    else:
        assert page.find("footer")[0].text() == f"{missing} is missing."


def test_reward_and_coverage_are_drawn_from_rollouts_where_nothing_was_logged(tmp_path: Path) -> None:
    run = folders.finished_demo(tmp_path)
    (run / "metrics.jsonl").unlink()
    assert "training reward" in section(report(run), "reward").text()


def test_lines_cut_by_a_crash_are_skipped_and_counted(tmp_path: Path) -> None:
    run = folders.finished_demo(tmp_path)
    whole = (run / "rollouts.jsonl").read_bytes()
    (run / "rollouts.jsonl").write_bytes(b"\xff\xfe\n[1]\n" + whole[:-40])
    (run / "metrics.jsonl").write_bytes((run / "metrics.jsonl").read_bytes()[:-40])
    (run / "eval.json").write_text('{"before": ')
    notes = report(run).find("footer")[0].text()
    assert "metrics.jsonl: 1 unreadable line skipped." in notes
    assert "rollouts.jsonl: 3 unreadable lines skipped." in notes
    assert "eval.json could not be read" in notes


ODD_ROWS: dict[str, list[object]] = {
    "not a number": [
        {"step": 1, "reward": float("nan"), "env/scored": None, "time/open": "x", "time/step": float("inf")}
    ],
    "one step": [{"step": 1, "reward": 0.5, "env/scored": 1.0, "time/open": 1.0}],
    "some keys, others unknown": [{"step": 5, "reward": -3}, {"step": 9, "time/calls": 2, "mood": "fine"}, {"loss": 1}],
    "zero time": [{"step": 1, "time/open": 0.0, "env_wait": 0.0}],
    "rewards beyond one": [{"step": step, "reward": 40.0 * step} for step in range(1, 4)],
    "huge": [{"step": 1, "reward": 10**400}, {"step": 2, "reward": 1e300}],
}


@pytest.mark.parametrize("rows", ODD_ROWS.values(), ids=ODD_ROWS.keys())
def test_odd_metrics_make_a_report(tmp_path: Path, rows: list[object]) -> None:
    run = folders.finished_demo(tmp_path)
    folders.write_lines(run / "metrics.jsonl", rows)
    page = report(run)
    assert page.find("h1")[0].text() == "Held-out success 0.14 → 0.91"
    assert "nan" not in " ".join(" ".join(row) for table in page.find("table") for row in table.cells())


def test_facts_of_the_wrong_type_make_a_report(tmp_path: Path) -> None:
    run = folders.empty_run(tmp_path)
    odd = folders.facts(model=["a", 1], seed={}, started=7, environments="echo", versions=[], seconds="?", status=None)
    folders.write_json(run / "run.json", odd)
    folders.write_json(run / "eval.json", {"before": [], "after": {"sampled": {"success": "high"}, "greedy": 1}})
    assert "status unknown" in section(report(run), "summary").text()


def test_a_folder_without_a_run_is_an_error_in_one_line(tmp_path: Path) -> None:
    for folder, reason in ((tmp_path, "is not a run folder"), (tmp_path / "absent", "is not a folder")):
        with pytest.raises(ReportError, match=reason) as raised:
            write_report(folder)
        assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_written_is_an_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run = folders.empty_run(tmp_path)
    (run / "report.html").mkdir()
    before = sorted(run.iterdir())
    with pytest.raises(ReportError, match=r"report\.html"):
        write_report(run)
    assert sorted(run.iterdir()) == before


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    run = folders.finished_demo(tmp_path)
    (run / "report.html").write_text("old")
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    assert [path.name for path in run.iterdir() if "report" in path.name] == ["report.html"]


def run_python(program: str, home: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    }
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=kept | {"HOME": home},
        capture_output=True,
        text=True,
        check=True,
    )


def test_nothing_is_printed_where_home_cannot_be_written(tmp_path: Path) -> None:
    run = folders.finished_demo(tmp_path)
    program = f"from pathlib import Path; from trainer.report import write_report; write_report(Path({str(run)!r}))"
    done = run_python(program, home="/dev/null/nowhere")
    assert (done.stdout, done.stderr) == ("", "")


def test_importing_the_module_imports_neither_matplotlib_nor_jinja2() -> None:
    program = (
        "import sys, trainer.report; print([name for name in ('matplotlib', 'jinja2', 'torch') if name in sys.modules])"
    )
    assert run_python(program, home=os.environ.get("HOME", "/")).stdout.strip() == "[]"


def test_matplotlib_settings_of_the_process_are_left_alone(tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 23.0, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        write_report(folders.finished_demo(tmp_path))
        assert dict(matplotlib.rcParams) == before
