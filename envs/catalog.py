"""Which environments there are: every folder beside this file that holds an `environment.py`.

Folders of a person's own join them through ORS_ENVS_PATH, with colons between them (semicolons on Windows).
Nothing is imported until one environment is asked for, so a broken folder breaks only itself.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from openreward.environments import Environment

ROOT = Path(__file__).resolve().parent
PATH_VARIABLE = "ORS_ENVS_PATH"
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


class CatalogError(Exception):
    """An environment is missing or cannot be loaded; the message is one line for a person."""


def names() -> list[str]:
    """Return the names of all environments, sorted; a folder counts whether or not its code can be loaded."""
    return sorted({file.parent.name for root in _roots() for file in root.glob("*/environment.py")})


def folder(name: str) -> Path:
    """Return the folder of an environment.

    Raises:
        CatalogError: there is no such environment; the message lists those that exist.
    """
    if name not in names():
        raise CatalogError(f"no environment {name!r}; there are: {', '.join(names()) or 'none'}")
    return next(root / name for root in _roots() if (root / name / "environment.py").is_file())


def summary(name: str) -> str:
    """Return the first line of text in an environment's README, below its front matter and title; "" without a README.

    Raises:
        CatalogError: there is no such environment.
    """
    readme = folder(name) / "README.md"
    if not readme.is_file():
        return ""
    text = _FRONT_MATTER.sub("", readme.read_text(encoding="utf-8"))
    return next((line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")), "")


def load(name: str) -> type[Environment]:
    """Import one environment and return its class.

    Raises:
        CatalogError: there is no such environment, its code fails on import (the message says where), or its
            `environment.py` does not hold exactly one environment that carries the folder's name.
    """
    module = _import(name, folder(name))
    found = _classes(module)
    where = f"envs/{name}/environment.py"
    if len(found) != 1:
        listed = ", ".join(cls.__name__ for cls in found) or "none"
        raise CatalogError(f"{where}: one subclass of openreward's Environment is expected, found: {listed}")
    if found[0].name() != name:
        raise CatalogError(f"{where}: {found[0].__name__}.name() is {found[0].name()!r}, the folder is {name!r}")
    return found[0]


def _roots() -> list[Path]:
    return [ROOT, *(Path(part).resolve() for part in os.environ.get(PATH_VARIABLE, "").split(os.pathsep) if part)]


def _import(name: str, home: Path) -> ModuleType:
    # One package over all roots, so that an environment's imports are the same wherever its folder is.
    places = sys.modules[__package__].__path__
    if str(home.parent) not in places:
        places.append(str(home.parent))
    try:
        return importlib.import_module(f"{__package__}.{name}.environment")
    except Exception as error:
        raise CatalogError(f"{_place(error, home)}: {type(error).__name__}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return " ".join(text.split())


def _place(error: Exception, home: Path) -> str:
    """Return "file:line" of the environment's own code that the error came from, not of a library it called."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_relative(Path(error.filename))}:{error.lineno}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(home)]
    return f"{_relative(Path(own[-1].filename))}:{own[-1].lineno}" if own else _relative(home / "environment.py")


def _relative(file: Path) -> str:
    return str(file.relative_to(ROOT.parent)) if file.is_relative_to(ROOT.parent) else str(file)


def _classes(module: ModuleType) -> list[type[Environment]]:
    from openreward.environments import Environment

    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Environment) and value.__module__ == module.__name__
    ]
