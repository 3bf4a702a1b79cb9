"""`import trainer` is cheap, and the two sides of the project do not know each other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers import ROOT, variables

HEAVY = {"openreward", "torch", "transformers", "trl", "datasets", "pyarrow", "aiohttp", "numpy", "asyncio", "envs"}


def loaded_by(program: str) -> set[str]:
    shown = f"{program}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    ran = subprocess.run(
        [sys.executable, "-c", shown], cwd=ROOT, env=variables(0), check=True, capture_output=True, text=True
    )
    return set(ran.stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not HEAVY & loaded_by("import trainer")


def test_importing_the_spec_and_the_mixture_imports_nothing_heavy() -> None:
    assert not (HEAVY - {"asyncio"}) & loaded_by("from trainer import Mixture, OpenRewardSpec")


def test_the_trainers_side_of_the_protocol_never_imports_the_servers() -> None:
    assert "envs" not in loaded_by("import trainer.ors.loop, trainer.ors.rollout, trainer.ors.mixture")


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    import trainer

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = trainer.Nothing
