"""`ors-env new`: what it makes serves, passes the check and its own test as it is."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from envs import card
from tests import forked
from tests.envs.conftest import Checkout
from tests.servers import forking, free_port, variables


def ors_env(cwd: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    own = {**variables(0), "PYTHONPATH": str(cwd), **env}
    return forked.run(["-m", "envs.cli", *arguments], env=own, cwd=cwd)


@pytest.fixture(scope="module")
def project(checkout: Checkout) -> Path:
    (checkout.path / "pyproject.toml").touch()
    done = ors_env(checkout.path, "new", "word_count")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.splitlines() == [
        "made envs/word_count: environment.py, README.md, test_environment.py; next:",
        "  python -m pytest envs/word_count",
        "  ors-env serve word_count --port 8000 --reload",
        "  ors-env check http://127.0.0.1:8000 --env word_count",
    ]
    return checkout.path


@pytest.fixture(scope="module")
def served(project: Path) -> Iterator[str]:
    port = free_port()
    words = ["-m", "envs.cli", "serve", "word_count", "--port", str(port)]
    with forking(words, port, env={"PYTHONPATH": str(project)}, cwd=project) as url:
        yield url


def test_it_passes_the_check(project: Path, served: str) -> None:
    done = ors_env(project, "check", served, "--env", "word_count", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [result for result in json.loads(done.stdout)["results"] if result["status"] == "failed"]


def test_it_has_two_splits_as_its_readme_says(project: Path, served: str) -> None:
    sizes = {
        split: httpx.post(f"{served}/word_count/num_tasks", json={"split": split}).json()["num_tasks"]
        for split in ("train", "test")
    }
    assert sizes == {"train": 72, "test": 72}
    assert "`train` 72 tasks with an odd sum, `test` 72 with" in (project / "envs/word_count/README.md").read_text()


def test_its_own_test_passes(project: Path) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "envs/word_count"]
    done = forked.run(words, env={**variables(0), "PYTHONPATH": str(project)}, cwd=project)
    assert (done.returncode, "4 passed" in done.stdout) == (0, True), done.stdout


def test_its_readme_is_a_space_card(project: Path) -> None:
    text = (project / "envs/word_count/README.md").read_text()
    card = yaml.safe_load(text.split("---\n")[1])
    assert card["title"] == "Word count"
    assert (card["sdk"], card["app_port"], "open-reward-standard" in card["tags"]) == ("docker", 7860, True)
    assert "$" not in text


def test_a_name_that_yaml_knows_is_still_a_title(project: Path, tmp_path: Path) -> None:
    assert ors_env(project, "new", "on", "--into", str(tmp_path)).returncode == 0
    assert card.read(tmp_path / "on").matter["title"] == "On"


def test_its_code_keeps_the_house_rules(project: Path) -> None:
    home = project / "envs/word_count"
    for command in (
        ["ruff", "check", "--isolated", "--line-length=120"],
        ["ruff", "format", "--check", "--line-length=120"],
    ):
        done = subprocess.run([sys.executable, "-m", *command, str(home)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout
    assert ast.get_docstring(ast.parse((home / "environment.py").read_text()))


def test_it_is_listed_with_what_it_is(project: Path) -> None:
    assert "word_count\n  Add two numbers" in ors_env(project, "list").stdout


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Upper", "lower-case letters"),
        ("two words", "lower-case letters"),
        ("../up", "lower-case letters"),
        ("dash-ed", "lower-case letters"),
        ("_private", "lower-case letters"),
        ("a" * 41, "40 characters at most"),
        ("class", "a word of Python"),
        ("match", "a word of Python"),
        ("health", "servers use the path /health"),
        ("page", "servers use the path /page"),
        ("ready", "servers use the path /ready"),
        ("server", "envs/ has something else of that name"),
        ("cli", "envs/ has something else of that name"),
        ("echo", "there is an environment 'echo' already"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(project: Path, name: str, why: str) -> None:
    before = sorted((project / "envs").iterdir())
    done = ors_env(project, "new", name)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert why in done.stderr
    assert sorted((project / "envs").iterdir()) == before


@pytest.mark.parametrize("place", ["checkout", "below it", "installed"])
def test_where_pytest_is_missing_the_first_thing_is_to_install_it(tmp_path: Path, place: str) -> None:
    own = Checkout(tmp_path)
    if place != "installed":
        (own.path / "pyproject.toml").touch()
    cwd = own.path / "envs" if place == "below it" else own.path
    words = [sys.executable, "-S", "-m", "envs.cli", "new", "mine", "--into", "own"]  # -S: without what pip installed
    done = subprocess.run(
        words, cwd=cwd, env={**variables(0), "PYTHONPATH": str(own.path)}, capture_output=True, text=True, timeout=60
    )
    install = {
        "checkout": "-c constraints.txt -e '.[dev]'",
        "below it": f"-c {own.path}/constraints.txt -e '{own.path}[dev]'",
        "installed": "pytest",
    }
    assert done.stdout.splitlines()[1:3] == [
        f"  python -m pip install {install[place]}",
        "  python -m pytest own/mine",
    ], done.stderr


def test_an_existing_folder_is_left_alone(project: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    done = ors_env(project, "new", "mine", "--into", str(tmp_path))
    assert (done.returncode, "mine exists; choose another name" in done.stderr) == (1, True)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_written_is_said(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = ors_env(project, "new", "mine", "--into", str(tmp_path / "file"))
    assert (done.returncode, "not a directory; --into takes another folder" in done.stderr) == (1, True)


def test_an_installed_package_is_not_written_into(tmp_path: Path) -> None:
    installed = Checkout(tmp_path)
    done = ors_env(installed.path, "new", "mine")
    assert (done.returncode, "an installed package" in done.stderr, "--into DIR" in done.stderr) == (1, True, True)


def test_another_folder_joins_the_catalog_by_a_variable(project: Path, tmp_path: Path) -> None:
    made = ors_env(project, "new", "far_away", "--into", os.path.relpath(tmp_path, project))
    assert f"ORS_ENVS_PATH={tmp_path} ors-env serve far_away --port 8000 --reload" in made.stdout
    listed = json.loads(ors_env(project, "list", "--json", ORS_ENVS_PATH=str(tmp_path)).stdout)
    assert {"echo", "far_away"} <= {entry["name"] for entry in listed["environments"]}
    assert "far_away" not in ors_env(project, "list").stdout
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "far_away")]
    done = forked.run(words, env={**variables(0), "PYTHONPATH": str(project)}, cwd=tmp_path)
    assert (done.returncode, "4 passed" in done.stdout) == (0, True), done.stdout
