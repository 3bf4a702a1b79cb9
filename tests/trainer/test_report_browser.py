"""The report in a real browser: wide and as narrow as a phone, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Dialog

from tests.trainer import run_folders as folders
from tests.trainer.test_report_rollouts import HOSTILE
from trainer.report import write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A failed run in which every text is markup, or too long for a line."""
    run = folders.failed_mixture(tmp_path_factory.mktemp("hostile"))
    unbroken = "n" * 400
    calls = [folders.call(unbroken, arguments={HOSTILE: unbroken}, result=HOSTILE + unbroken, error="crash")]
    rows = [folders.rollout(1, 0, calls=calls, environment=name, error=HOSTILE) for name in (unbroken, HOSTILE)]
    folders.write_lines(run / "rollouts.jsonl", rows)
    folders.write_json(run / "run.json", folders.facts(model=unbroken, message=HOSTILE, status="failed"))
    return write_report(run)


@pytest.mark.parametrize("width", [390, 1200])
def test_a_page_fits_its_window_runs_nothing_and_asks_for_nothing(browser: Browser, hostile: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.on("console", lambda message: seen.append(message.text))

    def dismiss(dialog: Dialog) -> None:
        seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.goto(hostile.as_uri())
    assert seen == [hostile.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_pictures_and_text_follow_the_reader_into_the_dark(browser: Browser, tmp_path: Path) -> None:
    path = write_report(folders.finished_demo(tmp_path))
    colours = {}
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        page = browser.new_page(color_scheme=scheme)
        page.goto(path.as_uri())
        colours[scheme] = [
            page.evaluate(f"getComputedStyle(document.querySelector({selector!r})).{what}")
            for selector, what in (("body", "backgroundColor"), ("h1", "color"), ("svg text", "fill"))
        ]
        page.close()
    assert not set(colours["light"]) & set(colours["dark"])
