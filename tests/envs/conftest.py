"""Shared by the tests of environments."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.servers import ROOT


class Checkout:
    """A copy of the environments' folder that a test may add to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copytree(ROOT / "envs", path / "envs", ignore=shutil.ignore_patterns("__pycache__"))

    def add(self, name: str, code: str) -> None:
        """Add an environment's folder with this `environment.py`."""
        home = self.path / "envs" / name
        home.mkdir()
        (home / "environment.py").write_text(code)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("checkout"))
