"""Which environments there are: every folder beside this file that holds an `environment.py`.

Folders of a person's own join them through ORS_ENVS_PATH, with colons between them (semicolons on Windows).
Nothing is imported until one environment is asked for, so a broken folder breaks only itself.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from openreward.environments import Environment

    from envs.card import Card

ROOT = Path(__file__).resolve().parent
PATH_VARIABLE = "ORS_ENVS_PATH"
# First parts of paths that the server answers itself, before any environment of that name is asked.
OWN_PATHS = frozenset({"page", "ready", "metrics"})


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


def card(name: str) -> Card:
    """Return what an environment's README says about it.

    Raises:
        CatalogError: there is no such environment.
    """
    from envs import card

    return card.read(folder(name))


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
    with own_code(name):
        own_name = found[0].name()
    if own_name != name:
        raise CatalogError(f"{where}: {found[0].__name__}.name() is {own_name!r}, the folder is {name!r}")
    return found[0]


@contextmanager
def own_code(name: str) -> Iterator[None]:
    """Run code of an environment.

    Raises:
        CatalogError: the code raised something, or called `exit`; the message is one line that says where and what.
    """
    try:
        yield
    except CatalogError:
        raise
    except (Exception, SystemExit) as error:
        raise CatalogError(f"{_place(error, folder(name))}: {_reason(error)}") from error


def _roots() -> list[Path]:
    return [ROOT, *(Path(part).resolve() for part in os.environ.get(PATH_VARIABLE, "").split(os.pathsep) if part)]


def _import(name: str, home: Path) -> ModuleType:
    # One package over all roots, so that an environment's imports are the same wherever its folder is.
    places = sys.modules[__package__].__path__
    if str(home.parent) not in places:
        places.append(str(home.parent))
    with own_code(name):
        return importlib.import_module(f"{__package__}.{name}.environment")


def _reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the environment called exit({error.code!r})"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())}".removesuffix(": ")


def _place(error: BaseException, home: Path) -> str:
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
