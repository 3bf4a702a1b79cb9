"""The catalog finds environments by folder, and a broken one breaks only itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envs import catalog
from tests.envs.conftest import Checkout
from tests.servers import ROOT

GOOD = """
from openreward.environments import Environment, Split, TextBlock, ToolOutput, tool

class Other(Environment):
    @classmethod
    def name(cls): return "other"
    @classmethod
    def list_splits(cls): return ["train"]
    @classmethod
    def list_tasks(cls, split): return [{}]
    def get_prompt(self): return [TextBlock(text="")]
    @tool
    def done(self) -> ToolOutput: return ToolOutput(blocks=[], finished=True)
"""


BROKEN = {
    "syntax": ("x = 1\ny = = 2\n", "envs/syntax/environment.py:2: SyntaxError: invalid syntax"),
    "missing": ("import nowhere\n", "envs/missing/environment.py:1: ModuleNotFoundError: No module named 'nowhere'"),
    "deep": ("import json\n\njson.loads('')\n", "envs/deep/environment.py:3: JSONDecodeError: Expecting value"),
    "lines": ("raise ValueError('one\\ntwo')\n", "envs/lines/environment.py:1: ValueError: one two"),
    "empty": ("x = 1\n", "one subclass of openreward's Environment is expected, found: none"),
    "named": (GOOD, "Other.name() is 'other', the folder is 'named'"),
    "leaves": ("import sys\nsys.exit(3)\n", "envs/leaves/environment.py:2: the environment called exit(3)"),
    "nameless": (GOOD.replace('return "other"', "return {}['a']"), "envs/nameless/environment.py:6: KeyError: 'a'"),
    "several": (GOOD + "class More(Other): pass\n", "Environment is expected, found: Other, More"),
}


def run(path: Path, code: str) -> str:
    """Run Python in a folder and return what it printed."""
    env = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def told(checkout: Checkout) -> dict[str, str]:
    """What one process that loads everything in a folder with broken environments is told about each."""
    checkout.add("other", GOOD)
    for name, (code, _) in BROKEN.items():
        checkout.add(name, code)
    (checkout.path / "envs" / "notes").mkdir()
    code = """
import json
from envs import catalog
told = {}
for name in catalog.names():
    try: told[name] = catalog.load(name).__name__ + catalog.card(name).summary
    except catalog.CatalogError as error: told[name] = str(error)
print(json.dumps(told))
"""
    heard: dict[str, str] = json.loads(run(checkout.path, code))
    return heard


def test_echo_is_found_and_loads() -> None:
    assert "echo" in catalog.names()
    assert catalog.load("echo").name() == "echo"
    assert catalog.folder("echo") == ROOT / "envs" / "echo"
    assert catalog.card("echo").summary.startswith("Say the word in the prompt")


def test_folders_without_an_environment_are_not_listed(told: dict[str, str]) -> None:
    assert "notes" not in told and "server" not in told


@pytest.mark.parametrize("ask", [catalog.load, catalog.folder, catalog.card])
@pytest.mark.parametrize("name", ["nothing", "", "..", "server", "echo/../echo"])
def test_an_unknown_name_is_one_line_that_lists_what_exists(ask: object, name: str) -> None:
    with pytest.raises(catalog.CatalogError) as told:
        ask(name)  # type: ignore[operator]
    assert "echo" in str(told.value) and "\n" not in str(told.value)


def test_importing_the_catalog_imports_no_environment_and_no_sdk() -> None:
    code = "import sys; from envs import catalog; catalog.names(); print({'openreward', 'envs.echo'} & {*sys.modules})"
    assert run(ROOT, code) == "set()"


def test_a_new_folder_is_an_environment_with_or_without_a_readme(told: dict[str, str]) -> None:
    assert told["other"] == "Other"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_environment_says_where_in_one_line_and_the_others_load(told: dict[str, str], name: str) -> None:
    assert BROKEN[name][1] in told[name] and "\n" not in told[name]
    assert told["echo"].startswith("EchoEnvironment")
