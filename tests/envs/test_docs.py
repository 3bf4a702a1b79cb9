"""The pages say what is so: the walk through writing an environment is walked, and the table of rules is the rules'."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from envs.check.report import table
from envs.check.rules import RULES
from tests import forked
from tests.envs.conftest import Checkout
from tests.servers import ROOT, forking, free_port, variables

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PORT = "8000"


class Walk:
    """Does what a page says, in a copy of the project, on a port of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.port = free_port()
        self.done: list[str] = []
        self._serving = ExitStack()
        stack.push(self._serving)

    def follow(self, language: str, block: str) -> None:
        if language == "python":
            name, _, code = block.partition("\n")
            (self.folder / name.removeprefix("# ")).write_text(code.replace(_PORT, str(self.port)))
            return
        assert language == "bash", f"nothing runs a block of {language}"
        for line in block.splitlines():
            self._run(line.replace(_PORT, str(self.port)))

    def _run(self, line: str) -> None:
        program, *arguments = shlex.split(line)
        words = [*{"ors-env": ["-m", "envs.cli"], "python": []}[program], *arguments]
        env = {**variables(self.port), "PYTHONPATH": str(self.folder)}
        if arguments[0] == "serve":
            self._serving.close()  # the page says to stop the one of before
            self._serving.enter_context(forking(words, self.port, env=env, cwd=self.folder))
        else:
            done = forked.run(words, env=env, cwd=self.folder)
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            self.done.append(done.stdout)


@pytest.mark.slow
def test_the_walk_through_writing_an_environment_can_be_walked(tmp_path: Path) -> None:
    folder = Checkout(tmp_path).path
    (folder / "pyproject.toml").touch()
    (folder / "trainer").symlink_to(ROOT / "trainer")
    page = (ROOT / "docs" / "writing-an-environment.md").read_text()
    with ExitStack() as stack:
        walk = Walk(folder, stack)
        for language, block in _BLOCK.findall(page):
            walk.follow(language, block)
    assert "60 tasks" in walk.done[-1]
    assert "0 failed (must)" in walk.done[-2]
    assert "ok        ORS-009  must    A terminal tool is described and hidden" in walk.done[-2]
    assert "6 passed" in walk.done[-3]


def test_every_rule_stands_in_the_page_as_it_is_in_the_code() -> None:
    page = (ROOT / "docs" / "checking.md").read_text()
    assert table(RULES) in page, "print(table(RULES)) gives the table"


@pytest.mark.parametrize("page", ["writing-an-environment.md", "checking.md", "deploying.md"])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / "docs" / page).read_text()):
        assert (ROOT / "docs" / link).exists() or link in {"server.md", "containers.md"}, link


def test_the_kubernetes_manifest_is_one_in_ten_lines() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    (text,) = [block for language, block in _BLOCK.findall(page) if language == "yaml"]
    manifest = yaml.safe_load(text)
    assert len(text.splitlines()) == 10
    assert (manifest["kind"], manifest["spec"]["replicas"]) == ("Deployment", 1)
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert manifest["spec"]["selector"]["matchLabels"] == labels
