"""`pytest --ors-url URL`: the rules of the conformance check as tests, and the URL as a fixture for one's own tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from envs.check.report import Report, Result
    from envs.check.rule import Rule

# What the check needs is imported when a URL is given: the plugin is loaded by every run of pytest.
_REPORT = pytest.StashKey["Report | NoReport"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ors", "Open Reward Standard")
    group.addoption("--ors-url", metavar="URL", help="check the ORS server at this URL, one test a rule")
    group.addoption("--ors-env", metavar="NAME", help="check this environment only (default: all the server has)")
    group.addoption("--ors-api-key", metavar="KEY", help="key of the server, sent in X-API-Key and never shown")
    group.addoption(
        "--ors-header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="sent to the server with every request, its value never shown; may be given again",
    )


@pytest.fixture(scope="session")
def ors_url(pytestconfig: pytest.Config) -> str:
    """The URL given as --ors-url; a test that asks for it is skipped where none is."""
    url: str | None = pytestconfig.getoption("--ors-url")
    if url is None:
        pytest.skip("no --ors-url given")
    return url.rstrip("/")


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--ors-url") is not None:
        items.extend(Conformance.from_parent(session, name="ors", nodeid="ors", path=Path(config.rootpath)).collect())


class Conformance(pytest.Collector):
    """All rules, against the server of --ors-url."""

    def collect(self) -> Iterator[RuleItem]:
        from envs.check.rules import RULES

        for rule in RULES:
            yield RuleItem.from_parent(self, name=rule.id, rule=rule)


class RuleItem(pytest.Item):
    """One rule: fails where it is broken on any environment, skipped where it was seen on none."""

    def __init__(self, *, rule: Rule, **more: Any) -> None:
        super().__init__(**more)
        self.rule = rule

    def runtest(self) -> None:
        results = [result for result in _report(self.config).results if result.rule is self.rule]
        failed = [result for result in results if result.status == "failed"]
        if failed and self.rule.level == "must":
            raise BrokenRule(failed)
        if failed:
            pytest.xfail(f"should: {_told(failed[0])}")
        if not any(result.status == "passed" for result in results):
            first = results[0]
            pytest.skip(first.reason if first.status == "not seen" else _told(first))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, BrokenRule):
            rule = self.rule
            told = [_told(result) for result in excinfo.value.results]
            return "\n".join([f"{rule.id} ({rule.level}): {rule.title}", rule.says, f"from: {rule.source}", *told])
        if isinstance(excinfo.value, NoReport):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.rule.id}: {self.rule.title}"


class BrokenRule(Exception):
    """A rule of level must does not hold."""

    def __init__(self, results: list[Result]) -> None:
        super().__init__(results)
        self.results = results


class NoReport(Exception):
    """The check could not be made; the message is one line for a person."""


def _report(config: pytest.Config) -> Report:
    """Return the report of the one check that all items of this process share.

    Raises:
        NoReport: it could not be made, for all items alike.
    """
    if _REPORT not in config.stash:
        config.stash[_REPORT] = _checked(config)
    report = config.stash[_REPORT]
    if isinstance(report, NoReport):
        raise report
    return report


def _checked(config: pytest.Config) -> Report | NoReport:
    from envs.check.headers import HeaderError, parse
    from envs.check.runner import CheckError, run_check

    name = config.getoption("--ors-env")
    try:
        return asyncio.run(
            run_check(
                config.getoption("--ors-url"),
                environments=[name] if name else None,
                api_key=config.getoption("--ors-api-key"),
                headers=parse(config.getoption("--ors-header")),
            )
        )
    except (CheckError, HeaderError) as error:
        return NoReport(str(error))


def _told(result: Result) -> str:
    where = f"{result.environment}: " if result.environment else ""
    sent, got = (result.evidence.sent, result.evidence.got) if result.evidence else ("nothing", result.reason)
    return f"{where}sent {sent}, got {got}"
