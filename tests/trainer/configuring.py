"""Configurations that tests ask for: as files, as command lines, and as entries of the list of environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer.config import Config, load
from trainer.ors.errors import ConfigurationError

MODEL = ("--model_name_or_path", "some/model")
ONE = (*MODEL, "--url", "http://127.0.0.1:1")


def written(path: Path, **keys: Any) -> list[str]:
    """The command line of a run whose file has these keys."""
    path.write_text(yaml.safe_dump({"model_name_or_path": "some/model", **keys}))
    return ["--config", str(path)]


def refused(*words: str) -> str:
    """What is said of a command line that is refused: one line."""
    with pytest.raises(ConfigurationError) as refusal:
        load(words)
    said = str(refusal.value)
    assert said and "\n" not in said
    return said


def entry(file: Path, **keys: Any) -> Config:
    return load(written(file, environments=[{"url": "http://127.0.0.1:1", **keys}]))


def entry_refused(file: Path, **keys: Any) -> str:
    return refused(*written(file, environments=[{"url": "http://127.0.0.1:1", **keys}]))
