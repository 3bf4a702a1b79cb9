"""The page at `/` in a real browser: whole episodes by clicking and by keyboard, keys, narrow and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from envs.sql import tasks
from tests import servers
from tests.envs.trial import TrialServer, trial_server, until

pytestmark = pytest.mark.browser
KEY = "the-operators-key"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with servers.serve("echo", "sql") as base:
        yield base


@pytest.fixture(scope="module")
def trial() -> Iterator[TrialServer]:
    with trial_server(ENV_API_KEY=KEY) as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which nothing may go wrong, and which asks no other host for anything."""
    context = browser.new_context()
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: wrong.append(request.url) if "//127.0.0.1:" not in request.url else None)
    yield opened
    # The browser itself notes an answer of 401; the page shows it to the user.
    assert [text for text in wrong if "status of 401" not in text] == []
    context.close()


def start(page: Page, index: int, split: str = "train") -> str:
    page.get_by_label("Split").select_option(split)
    page.get_by_label("Task", exact=True).fill(str(index))
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#tools form").first).to_be_visible()
    return page.locator("#prompt").inner_text()


def test_a_full_echo_episode_by_clicking(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Echo")
    expect(page.locator("#description")).to_contain_text("Say the word in the prompt")
    expect(page.locator("#splits")).to_have_text("train128test64")
    expect(page.locator("#training")).to_have_text(
        f'from trainer import OpenRewardSpec\nspec = OpenRewardSpec("{url}", env_name="echo")'
    )
    target = start(page, 3).split("'")[1]
    for text in ("something else", target):
        page.get_by_label("text").fill(text)
        page.get_by_role("button", name="Call echo").click()
        expect(page.locator("#calls li").last).to_contain_text(f'echo(text="{text}")')
    first, last = page.locator("#calls li").all()
    expect(first).to_contain_text("no match")
    expect(first).to_contain_text("reward 0")
    expect(last).to_contain_text("reward 1")
    expect(page.get_by_text("The episode is over: reward 1.")).to_be_visible()
    expect(page.get_by_role("button", name="Call echo")).to_have_count(0)
    until(lambda: sessions(url) == 0, "the session is closed")


def test_a_full_sql_episode_by_clicking(page: Page, url: str) -> None:
    asked = tasks.task(tasks.number_of("test", 7))
    page.goto(url)
    page.get_by_label("Environment").select_option("sql")
    expect(page.get_by_role("heading", level=1)).to_contain_text("SQL")
    expect(page.locator("#splits")).to_have_text("train4,000validation200test500")
    assert asked.wording in start(page, 7, "test")

    page.get_by_role("tab", name="describe").click()
    page.get_by_role("button", name="Call describe").click()
    expect(page.locator("#calls li")).to_have_count(1)
    page.get_by_role("tab", name="query").click()
    page.get_by_role("textbox", name="sql").fill("SELECT nothing FROM nowhere")
    page.get_by_role("button", name="Call query").click()
    expect(page.locator("#calls li").last).to_contain_text("Error")
    page.get_by_role("tab", name="submit").click()
    page.get_by_role("textbox", name="sql").fill(asked.question.sql())
    page.get_by_role("button", name="Call submit").click()
    expect(page.get_by_text("The episode is over: reward 1.")).to_be_visible()


def test_an_episode_by_keyboard_alone(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("#splits tr")).to_have_count(2)
    task = page.get_by_label("Task", exact=True)
    for _ in range(10):
        page.keyboard.press("Tab")
        if task.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    expect(page.locator("#tools textarea")).to_be_focused()
    target = page.locator("#prompt").inner_text().split("'")[1]
    page.keyboard.type(target)
    page.keyboard.press("Enter")
    expect(page.get_by_text("The episode is over: reward 1.")).to_be_visible()
    expect(page.get_by_role("button", name="Start")).to_be_focused()


def test_a_key_is_refused_and_another_accepted(page: Page, trial: TrialServer) -> None:
    page.goto(trial.url)
    expect(page.locator("#play")).to_be_hidden()
    page.get_by_label("API key").fill("a guess")
    page.get_by_role("button", name="Use this key").click()
    expect(page.get_by_text("The server refused this key.")).to_be_visible()
    expect(page.locator("#play")).to_be_hidden()
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Use this key").click()
    expect(page.get_by_text("The key is accepted.")).to_be_visible()
    expect(page.locator("#training")).to_contain_text('env_name="trial", api_key="YOUR KEY")')
    assert start(page, 0) == "Say a."


def unlock(page: Page, trial: TrialServer) -> None:
    page.goto(trial.url)
    page.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    start(page, 0)


def test_a_form_sends_what_was_filled_in_and_nothing_else(page: Page, trial: TrialServer) -> None:
    unlock(page, trial)
    page.get_by_role("tab", name="fill").click()
    form = page.get_by_role("tabpanel", name="fill")
    form.get_by_label("text").press_sequentially("one")
    form.get_by_label("text").press("Shift+Enter")
    form.get_by_label("text").press_sequentially("two")
    form.get_by_label("city").fill("Ulm")
    form.get_by_label("tags").fill("[not JSON")
    form.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_have_text("tags: this is not valid JSON.")
    form.get_by_label("tags").fill("")
    form.get_by_role("button").click()
    assert shown(page) == {"text": "one\ntwo", "colour": "red", "where": {"city": "Ulm"}}
    expect(page.get_by_role("alert")).to_have_count(0)

    form.get_by_label("colour").select_option("green")
    form.get_by_label("count").fill("4")
    form.get_by_label("ratio").fill("0.5")
    form.get_by_label("loud").select_option("true")
    form.get_by_label("floor").fill("2")
    form.get_by_label("tags").fill('["a", "b"]')
    form.get_by_role("button").click()
    expect(page.locator("#calls li")).to_have_count(2)
    assert shown(page) == {
        "text": "one\ntwo",
        "colour": "green",
        "where": {"city": "Ulm", "floor": 2},
        "count": 4,
        "ratio": 0.5,
        "loud": True,
        "tags": ["a", "b"],
    }
    page.get_by_text("Metadata").last.click()
    expect(page.get_by_text('"fields": 7')).to_be_visible()


def shown(page: Page) -> object:
    return json.loads(page.locator("#calls li .blocks").last.inner_text())


def test_a_tool_that_fails_is_shown_and_a_session_that_is_gone_is_told(page: Page, trial: TrialServer) -> None:
    unlock(page, trial)
    page.get_by_role("tab", name="crash").click()
    page.get_by_role("tabpanel", name="crash").get_by_label("text").fill("<b>the disk is full</b>")
    page.get_by_role("button", name="Call crash").click()
    expect(page.locator("#calls li .failed")).to_have_text("<b>the disk is full</b>")
    page.get_by_role("button", name="End the session").click()
    expect(page.get_by_text("The session is closed.")).to_be_visible()
    expect(page.get_by_role("button", name="Call crash")).to_have_count(0)


def test_a_session_that_cannot_be_set_up_is_told_and_closed(browser: Browser) -> None:
    with trial_server(TRIAL_TASKS="broken") as server:
        page = browser.new_page()
        page.goto(server.url)
        page.get_by_role("button", name="Start").click()
        expect(page.get_by_role("alert")).to_contain_text("cannot set up with")
        expect(page.locator("#episode")).to_be_hidden()
        until(lambda: server.metric('ors_sessions_ended_total{reason="deleted"}') == 1, "the session is closed")
        assert server.metric("ors_sessions_open") == 0
        page.close()


def test_a_page_that_is_left_closes_its_session(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("#splits tr")).to_have_count(2)
    start(page, 0)
    assert sessions(url) == 1
    page.goto("about:blank")
    until(lambda: sessions(url) == 0, "the session is closed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(
    browser: Browser, url: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(url)
    expect(page.locator("#splits tr")).to_have_count(2)
    start(page, 0)
    page.get_by_label("text").fill("unbroken" * 100)
    page.get_by_role("button", name="Call echo").click()
    expect(page.locator("#calls li")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert (brightness(background) > brightness(ink)) == (scheme == "light")
    page.close()


def test_a_table_keeps_its_lines_and_scrolls_by_itself(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(url)
    page.get_by_label("Environment").select_option("sql")
    expect(page.locator("#splits tr")).to_have_count(3)
    start(page, 0)
    page.get_by_role("tab", name="query").click()
    page.get_by_role("textbox", name="sql").fill("SELECT * FROM orders")
    page.get_by_role("button", name="Call query").click()
    table = page.get_by_role("region", name="Table")
    expect(table).to_contain_text("customer_id | product_id")
    lines = len(table.inner_text().splitlines())
    height, line, width, inside = table.evaluate(
        "e => [e.clientHeight, parseFloat(getComputedStyle(e).lineHeight), e.clientWidth, e.scrollWidth]"
    )
    assert round(height / line) == lines == 2 + 20 + 1
    assert inside > width
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    table.focus()
    expect(table).to_be_focused()
    page.close()


def brightness(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def sessions(url: str) -> float:
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    return float(next(line for line in text.splitlines() if line.startswith("ors_sessions_open ")).split()[1])


def test_the_page_may_be_framed_by_spaces_and_loads_nothing_foreign(url: str) -> None:
    policy = httpx.get(url, trust_env=False).headers["content-security-policy"]
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["frame-ancestors"] == "'self' https://huggingface.co https://*.hf.space"
    assert all(
        value in ("'none'", "'self'", "'self' data:") for name, value in rules.items() if name != "frame-ancestors"
    )
