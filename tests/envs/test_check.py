"""The conformance check, proven both ways: it passes servers that keep the standard, and each fault fails alone."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs import catalog
from envs.check.limits import Limits
from envs.check.report import Report
from envs.check.rule import Evidence, rule
from envs.check.rules import RULES
from envs.check.runner import CheckError, run_check
from envs.check.subject import Subject
from envs.check.survey import Survey
from tests.envs.faults import FAULTS, MALFORMED
from tests.servers import ROOT, free_port, serve, serve_script, variables

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
KEY = "test-key-3f1c"
# The broken server sends comments every 0.3 s, so that a tool of 1.5 s shows whether they come.
SLOW = Limits(slow_call=6.0, silence=5.0, parallel=4)
# Without a slow tool: what it would show is not seen, and costs no time.
QUICK = Limits(slow_call=0.1, parallel=4)
# Where one fault cannot help but break a second rule, it stands here.
LINKED = {"ORS-055": {"ORS-054"}}  # the chunk that is lost holds text here and white space there
OLDER_DIFFERENCES = {"ORS-028", "ORS-041", "ORS-042", "ORS-045"}


def check(url: str, limits: Limits = QUICK, **more: Any) -> Report:
    return asyncio.run(run_check(url, limits=limits, **more))


def rules(report: Report, status: str, environment: str | None = None) -> set[str]:
    return {
        result.rule.id
        for result in report.results
        if result.status == status and environment in (None, result.environment)
    }


@pytest.fixture(scope="module")
def broken() -> Iterator[str]:
    with serve_script(HERE / "broken_server.py", {"ORS_TEST_KEY": KEY}) as url:
        yield url


@pytest.fixture(scope="module")
def open_sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("open-sessions")


@pytest.fixture(scope="module")
def plain(open_sessions: Path) -> Iterator[str]:
    with serve_script(HERE / "conformance_environment.py", {"ORS_TEST_OPEN": str(open_sessions)}) as url:
        yield url


@pytest.fixture(scope="module")
def older() -> Iterator[str]:
    with serve_script(HERE / "conformance_environment.py", {"ORS_SERVER": "older"}) as url:
        yield url


@pytest.fixture(scope="module")
def full() -> Iterator[str]:
    with serve_script(HERE / "conformance_environment.py", {"ORS_SERVER": "full", "ENV_API_KEY": KEY}) as url:
        yield url


def test_every_rule_has_its_own_number_and_a_fault() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert {rule.id for rule in RULES} == set(FAULTS)


def test_a_server_that_keeps_the_standard_shows_and_passes_every_rule(broken: str) -> None:
    report = check(f"{broken}/none", SLOW, api_key=KEY, environments=["conformance"])
    assert rules(report, "passed") == {rule.id for rule in RULES}, report.as_text()


@pytest.mark.slow
@pytest.mark.parametrize("id", sorted(FAULTS))
def test_a_fault_fails_its_rule_and_no_other(broken: str, id: str) -> None:
    limits = SLOW if id == "ORS-053" else QUICK
    report = check(f"{broken}/{id}", limits, api_key=KEY, environments=["conformance"])
    assert rules(report, "failed") == {id} | LINKED.get(id, set()), report.as_text()
    assert report.ok is (next(one for one in RULES if one.id == id).level == "should")


@pytest.mark.parametrize("name", MALFORMED)
def test_an_answer_that_nobody_foresaw_is_a_failure_and_ends_no_check(broken: str, name: str) -> None:
    report = check(f"{broken}/malformed-{name}", api_key=KEY, environments=["conformance"])
    assert rules(report, "failed") == MALFORMED[name][1], report.as_text()
    assert report.as_text().encode() and report.as_json().encode()
    assert all(line.isprintable() for line in report.as_text().splitlines())


def test_what_a_rule_cannot_read_is_its_evidence(broken: str) -> None:
    @rule("ORS-900", "The number of chairs", "GET /health says how many chairs there are.", "nowhere", scope="server")
    async def chairs(subject: Subject, survey: Survey) -> Evidence:
        answer = await subject.wire.request("GET", "/health")
        return Evidence(answer.sent, answer.json()["chairs"])

    report = check(f"{broken}/none", api_key=KEY, environments=["conformance"], rules=[chairs])
    (result,) = report.failures()
    told = '200 {"status":"ok"} (reading it ended in KeyError: \'chairs\')'
    assert result.evidence == Evidence("GET /health", told)


def test_the_sdks_server_passes(plain: str) -> None:
    report = check(plain)
    assert report.environments == ("conformance", "clipping", "spoken")
    assert (report.ok, rules(report, "failed"), rules(report, "older")) == (True, set(), set()), report.as_text()
    assert rules(report, "not seen", "conformance") == {"ORS-009", "ORS-053", "ORS-060"}


@pytest.fixture(scope="module")
def unhurried(plain: str, older: str, full: str) -> dict[str, Report]:
    """What checks with the times of the standard say of each server: they mostly wait, so they are made at once."""

    async def all_at_once() -> list[Report]:
        checks = [run_check(plain), run_check(older), run_check(full, api_key=KEY)]
        return await asyncio.gather(*checks)

    return dict(zip(("plain", "older", "full"), asyncio.run(all_at_once()), strict=True))


@pytest.mark.slow
def test_the_sdks_server_passes_with_the_times_of_the_standard(unhurried: dict[str, Report]) -> None:
    report = unhurried["plain"]
    assert report.ok, report.as_text()
    assert rules(report, "not seen", "conformance") == {"ORS-009", "ORS-060"}


def test_the_older_server_differs_where_its_version_does(older: str) -> None:
    report = check(older)
    assert (report.version, report.ok) == ("", True), report.as_text()
    assert rules(report, "older") == OLDER_DIFFERENCES
    assert rules(report, "failed") == {"ORS-002"}
    assert rules(report, "not seen", "conformance") == {"ORS-009", "ORS-053", "ORS-060"}


@pytest.mark.slow
def test_the_older_server_shows_signs_of_life_too(unhurried: dict[str, Report]) -> None:
    report = unhurried["older"]
    assert "ORS-053" in rules(report, "passed"), report.as_text()


def test_this_projects_server_passes_behind_a_key(full: str) -> None:
    report = check(full, api_key=KEY)
    assert (report.ok, rules(report, "failed"), rules(report, "older")) == (True, set(), set()), report.as_text()
    assert rules(report, "not seen", "conformance") == {"ORS-009", "ORS-053"}


@pytest.mark.slow
def test_this_projects_server_passes_with_the_times_of_the_standard(unhurried: dict[str, Report]) -> None:
    report = unhurried["full"]
    assert (report.ok, rules(report, "failed")) == (True, set()), report.as_text()
    assert rules(report, "not seen", "conformance") == {"ORS-009"}


def test_the_catalogs_environments_pass() -> None:
    with serve(*catalog.names()) as url:
        report = check(url)
    assert report.environments == tuple(catalog.names())
    assert (report.ok, rules(report, "failed")) == (True, set()), report.as_text()


def test_what_a_tool_does_to_text_is_not_laid_at_the_servers_door(plain: str) -> None:
    report = check(plain, environments=["clipping"])
    assert report.ok, report.as_text()
    unseen = {result.rule.id: result.reason for result in report.results if result.status == "not seen"}
    assert all("the tool 'note' does not repeat" in unseen[rule] for rule in ("ORS-054", "ORS-055", "ORS-056"))


def test_what_an_environment_does_not_offer_is_not_seen_and_not_passed(plain: str) -> None:
    report = check(plain)
    unseen = {result.rule.id: result.reason for result in report.results if result.environment == "spoken"}
    assert unseen["ORS-054"] == "no tool's result repeats a text that it was given"
    assert unseen["ORS-053"].startswith("no tool has a number named seconds")
    assert "ORS-054" not in rules(report, "passed", "spoken")


def test_one_environment_can_be_chosen(plain: str) -> None:
    report = check(plain, environments=["spoken"])
    assert {result.environment for result in report.results} == {"", "spoken"}


def test_no_session_is_left_open(plain: str, open_sessions: Path) -> None:
    check(plain)
    assert list(open_sessions.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_session_is_left_open_by_an_interrupted_check(plain: str, open_sessions: Path, number: int) -> None:
    command = [sys.executable, "-m", "envs.cli", "check", plain]
    process = subprocess.Popen(command, cwd=ROOT, env=variables(0), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        _until(lambda: any(open_sessions.iterdir()))
        process.send_signal(number)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, output) == (130, b"")
    _until(lambda: not any(open_sessions.iterdir()))


def test_a_server_that_hangs_costs_bounded_time(broken: str) -> None:
    started = time.monotonic()
    report = check(f"{broken}/stuck", Limits(answer=0.3, rule=1.0, total=3.0, parallel=2), api_key=KEY)
    assert not report.ok
    assert {"ORS-001", "ORS-010"} <= rules(report, "passed")
    # The time that the limits allow, and then some for a machine that is busy.
    assert time.monotonic() - started < 30


def test_rules_without_time_left_fail(plain: str) -> None:
    report = check(plain, Limits(total=0.001))
    assert not report.ok
    assert rules(report, "passed") == set()
    assert "of the whole check are over" in report.as_text()


def test_the_key_is_never_shown(broken: str) -> None:
    report = check(f"{broken}/tells-the-key", api_key=KEY)
    assert KEY not in report.as_json()
    assert KEY not in report.as_text()
    health = next(result for result in report.results if result.rule.id == "ORS-001")
    assert health.evidence is not None
    assert '"x-api-key": "***"' in health.evidence.got


def test_a_password_in_the_url_is_sent_and_never_shown(plain: str) -> None:
    report = check(plain.replace("//", "//user:hunter2@"))
    assert report.url == plain
    assert "hunter2" not in report.as_json()


def test_a_password_that_a_server_repeats_is_not_shown(broken: str) -> None:
    url = broken.replace("//", "//user:hunter%402@")
    told = check(f"{url}/tells-the-key", api_key=KEY).as_json()
    sent = base64.b64encode(b"user:hunter@2").decode()
    assert "Basic ***" in told
    assert not [secret for secret in (sent, "hunter@2", "hunter%402") if secret in told]


@pytest.mark.parametrize(
    ("path", "more", "message"),
    [
        ("/none", {}, r"asks for a key: give --api-key, .* \(401: a key is needed\)$"),
        ("/none", {"api_key": "wrong"}, r"refuses the key \(401: a key is needed\)$"),
        (
            "/none",
            {"api_key": KEY, "environments": ["chess"]},
            "has no environment 'chess'; it has: conformance, spoken",
        ),
    ],
)
def test_a_check_that_cannot_be_made_says_why(broken: str, path: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckError, match=message):
        check(f"{broken}{path}", **more)


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://127.0.0.1:abc"),
        *("http://[::1", "http://127.0.0.1:8000\x07", "http://user:hunter2@[::1", "http://user:hunter2@host:abc"),
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(CheckError, match="is no URL") as refused:
        check(url)
    assert str(refused.value).isprintable() and "hunter2" not in str(refused.value)


@pytest.mark.parametrize("key", ["secretключ", "secret\rkey", "", " \n"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(CheckError, match="the API key is empty, or holds characters that a header cannot") as refused:
        check("http://127.0.0.1:9", api_key=key)
    assert "secret" not in str(refused.value)


def test_a_line_end_after_the_key_is_no_part_of_it(broken: str) -> None:
    done = _command(f"{broken}/none", "--api-key", f"{KEY}\r\n", "--env", "spoken")
    assert (done.returncode, done.stderr, KEY in done.stdout) == (0, "", False)


def test_a_server_that_hangs_at_its_list_is_reported(broken: str) -> None:
    listing = [one for one in RULES if one.id == "ORS-003"]
    report = check(f"{broken}/hangs-at-its-list", Limits(answer=2.0), api_key=KEY, rules=listing)
    assert rules(report, "failed") == {"ORS-003"}


def test_nothing_behind_the_url_is_said_in_one_line() -> None:
    with pytest.raises(CheckError, match=r"http://127\.0\.0\.1:\d+: no answer: "):
        check(f"http://127.0.0.1:{free_port()}")


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(CheckError, match=r"nothing within 0\.2 s"):
        check(f"http://127.0.0.1:{silent.getsockname()[1]}", Limits(answer=0.2))


def test_the_command_prints_a_table_and_succeeds(plain: str) -> None:
    done = _command(plain, "--env", "spoken")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok        ORS-001  must    The server says that it is healthy" in done.stdout
    assert "0 failed (must)" in done.stdout.splitlines()[-1]


def test_the_command_prints_json_and_fails_for_a_broken_must(broken: str) -> None:
    done = _command(f"{broken}/ORS-001", "--api-key", KEY, "--env", "spoken", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    report = json.loads(done.stdout)
    (failed,) = [result for result in report["results"] if result["status"] == "failed"]
    assert (report["ok"], report["environments"]) == (False, ["spoken"])
    assert (failed["rule"], failed["level"], failed["environment"]) == ("ORS-001", "must", None)
    assert (failed["sent"], failed["got"]) == ("GET /health", '200 {"status": "well"}')


def test_the_command_says_in_one_line_what_is_wrong() -> None:
    done = _command("nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ors-env: 'nowhere' is no URL; give one such as http://127.0.0.1:8000\n"


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "envs.cli", "check", *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables(0), capture_output=True, text=True, timeout=170)


def _until(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)
