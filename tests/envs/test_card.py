"""The README of an environment: whatever is wrong with it, the environment is listed and served."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from envs import card
from tests import forked
from tests.envs.conftest import Checkout
from tests.envs.test_catalog import GOOD
from tests.servers import forking, free_port

# What is in the README, the title that is shown, and what is said about it; "" where nothing is wrong.
READMES = {
    "latin": ("# Titel\n\nGrüße.\n".encode("latin-1"), "latin", "README.md:3: not UTF-8"),
    "comments": (b"---\n# title: none yet\n---\n# T\n\nWords.\n", "comments", ""),
    "nothing": (b"---\n---\n# T\n\nWords.\n", "nothing", ""),
    "listed": (b"---\n- title\n---\n# T\n\nWords.\n", "listed", "the front matter is no list of names and values"),
    "quoted": (b'---\ntitle: "x (bad\n---\n# T\n\nWords.\n', "quoted", "the front matter is no YAML"),
    "dated": (b"---\ndate: 2026-13-45\n---\n# T\n\nWords.\n", "dated", "the front matter is no YAML"),
    "windows": (b"\xef\xbb\xbf---\r\ntitle: Windows\r\n---\r\n# T\r\n\r\nWords.\r\n", "Windows", ""),
    "numbered": (b"---\ntitle: 7\n---\n# T\n\nWords.\n", "7", ""),
    "folder": (None, "folder", "README.md cannot be read: is a directory"),
}


@pytest.fixture(scope="module")
def project(checkout: Checkout) -> Path:
    for name, (text, _, _) in READMES.items():
        checkout.add(name, GOOD.replace('"other"', repr(name)))
        readme = checkout.path / "envs" / name / "README.md"
        readme.mkdir() if text is None else readme.write_bytes(text)
    return checkout.path


@pytest.fixture(scope="module")
def about(project: Path) -> dict[str, Any]:
    """What the page of a server of all of them says, by name."""
    port = free_port()
    words = ["-m", "envs.cli", "serve", *READMES, "--port", str(port)]
    with forking(words, port, env={"PYTHONPATH": str(project)}, cwd=project) as url:
        told = httpx.get(f"{url}/page/about.json", trust_env=False).json()
    return {entry["name"]: entry for entry in told["environments"]}


@pytest.mark.parametrize("name", READMES)
def test_it_is_served(about: dict[str, Any], name: str) -> None:
    _, title, _ = READMES[name]
    assert about[name]["title"] == title
    assert about[name]["description"] == {"latin": "Gr\ufffd\ufffde.", "folder": ""}.get(name, "Words.")


def test_they_are_all_listed_with_one_line_for_each_that_cannot_be_read(project: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(project)}
    done = forked.run(["-m", "envs.cli", "list", "--json"], env=env, cwd=project)
    assert done.returncode == 0, done.stderr
    assert set(READMES) <= {entry["name"] for entry in json.loads(done.stdout)["environments"]}
    wrong = [(name, told) for name, (_, _, told) in sorted(READMES.items()) if told]
    lines = done.stderr.splitlines()
    assert len(lines) == len(wrong)
    for line, (name, told) in zip(lines, wrong, strict=True):
        assert line.startswith("ors-env: warning: ") and f"{name}/README.md" in line and told in line


def test_a_folder_without_one_has_an_empty_card(tmp_path: Path) -> None:
    assert card.read(tmp_path) == card.Card()
