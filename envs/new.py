"""`ors-env new`: a folder with a small environment that serves, passes the check and trains as it is."""

from __future__ import annotations

import keyword
import os
import re
import shlex
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template

from envs import catalog

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST = 40
# First parts of the paths that a server answers itself: an environment of that name could not be reached.
_PATHS = {
    *catalog.OWN_PATHS,
    *("health", "version", "ping", "create", "delete", "create_session", "delete_session"),
    *("list_environments", "docs", "redoc", "static", "mcp"),
}


class NewError(Exception):
    """The environment cannot be made; the message is one line for a person."""


def run(name: str, into: Path | None) -> int:
    """Make an environment and print what to do next.

    Args:
        name: of the environment and of its folder.
        into: folder to make it in, by default the `envs/` of this checkout.

    Raises:
        NewError: the name cannot be used, the folder exists, or nothing can be written there.
    """
    home = make(name, into)
    print(f"made {_shown(home)}: environment.py, README.md, test_environment.py; next:")
    path = "" if into is None else f"{catalog.PATH_VARIABLE}={shlex.quote(str(into.resolve()))} "
    if find_spec("pytest") is None:
        print(f"  python -m pip install {_pytest()}")
    print(f"  python -m pytest {shlex.quote(_shown(home))}")
    print(f"  {path}ors-env serve {name} --port 8000 --reload")
    print(f"  ors-env check http://127.0.0.1:8000 --env {name}")
    return 0


def make(name: str, into: Path | None = None) -> Path:
    """Write the folder of a new environment and return it. Arguments and errors as for `run`."""
    _check(name)
    root = into if into is not None else _checkout()
    home = root / name
    words = name.split("_")
    values = {
        "name": name,
        "title": " ".join(words).capitalize(),
        "class_name": "".join(word.capitalize() for word in words) + "Environment",
    }
    try:
        home.mkdir(parents=True)
        (home / "__init__.py").touch()
        for template in resources.files("envs").joinpath("templates").iterdir():
            if template.name.endswith(".template"):
                text = Template(template.read_text(encoding="utf-8")).substitute(values)
                (home / template.name.removesuffix(".template")).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise NewError(f"{_shown(home)} exists; choose another name, or remove it first") from None
    except OSError as error:
        raise NewError(
            f"{_shown(home)}: {(error.strerror or str(error)).lower()}; --into takes another folder"
        ) from error
    return home


def _check(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        rule = f"lower-case letters, digits and single underscores, a letter first, {_LONGEST} characters at most"
        raise NewError(f"{name!r} cannot be the name of an environment: {rule}")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise NewError(f"{name!r} cannot be the name of an environment: it is a word of Python")
    if name in _PATHS:
        raise NewError(f"{name!r} cannot be the name of an environment: servers use the path /{name} themselves")
    if name in catalog.names():
        raise NewError(f"there is an environment {name!r} already, in {_shown(catalog.folder(name))}")
    if any((catalog.ROOT / taken).exists() for taken in (name, f"{name}.py")):
        raise NewError(f"{name!r} cannot be the name of an environment: envs/ has something else of that name")


def _pytest() -> str:
    """Return what pip is to install; in a checkout more than pytest, whose settings there need plugins."""
    project = catalog.ROOT.parent
    if not _is_checkout():
        return "pytest"
    return f"-c {shlex.quote(_shown(project / 'constraints.txt'))} -e {shlex.quote(f'{_shown(project)}[dev]')}"


def _is_checkout() -> bool:
    return (catalog.ROOT.parent / "pyproject.toml").is_file()


def _checkout() -> Path:
    if not _is_checkout():
        raise NewError(f"{catalog.ROOT} is an installed package and no place to write in; give a folder: --into DIR")
    return catalog.ROOT


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
