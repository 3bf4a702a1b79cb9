"""The folder of a Hugging Face Space: one environment, the image's recipe, and nothing that the image does not need."""

from __future__ import annotations

import re
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from envs import catalog

APP_PORT = 7860
_RECIPE = "Dockerfile.env"
_PACKAGES = ("pyproject.toml", "constraints.txt")
# Verbs of an author's machine: no container runs them.
_VERBS = {"new.py", "push.py", "space.py", "reloading.py", "check", "templates"}
_LEFT_OUT = ("__pycache__", "*.pyc", "*.egg-info", "test_*.py", "conftest.py", "node_modules", "venv")
_SECRET = (".*", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ecdsa*", "id_ed25519*", "credentials*", "secrets*")
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


class SpaceError(Exception):
    """The folder cannot be made; the message is one line for a person."""


def lay_out(name: str, target: Path) -> list[str]:
    """Write the Space of an environment into an empty folder.

    Returns:
        Files of the environment that were left out because they look like secrets, relative to its folder.

    Raises:
        SpaceError: this is no checkout with the image's recipe, or the README is no card.
        envs.catalog.CatalogError: there is no such environment.
    """
    home = catalog.folder(name)
    checkout = catalog.ROOT.parent
    missing = [file for file in (_RECIPE, *_PACKAGES) if not (checkout / file).is_file()]
    if missing:
        raise SpaceError(f"{checkout} has no {missing[0]}: a Space is made from a checkout of the repository")
    dockerfile = _recipe((checkout / _RECIPE).read_text(encoding="utf-8"), name)
    card = _card(home / "README.md", name)
    for part in sorted(catalog.ROOT.iterdir()):
        environment = (part / "environment.py").is_file()
        if not environment and part.name not in _VERBS and not _matches(part, (*_LEFT_OUT, *_SECRET)):
            _copy(part, target / "envs" / part.name)
    _copy(home, target / "envs" / name)
    for file in _PACKAGES:
        shutil.copyfile(checkout / file, target / file)
    (target / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    (target / "README.md").write_text(card, encoding="utf-8")
    return _secrets(home)


def files(target: Path) -> list[str]:
    """Return the files of a folder, relative to it and sorted."""
    return sorted(file.relative_to(target).as_posix() for file in target.rglob("*") if file.is_file())


def _recipe(text: str, name: str) -> str:
    """Return the image's recipe with its build arguments' defaults set: a Space is built without arguments."""
    for argument, value in (("ENV", name), ("PORT", str(APP_PORT))):
        text, found = re.subn(rf"^ARG {argument}=.*$", f"ARG {argument}={value}", text, flags=re.MULTILINE)
        if found != 1:
            raise SpaceError(f"{_RECIPE} has {found} lines ARG {argument}=, one is expected")
    return text


def _card(readme: Path, name: str) -> str:
    """Return the environment's README with the front matter that Spaces asks for."""
    text = readme.read_text(encoding="utf-8") if readme.is_file() else f"# {name}\n"
    found = _FRONT_MATTER.match(text)
    try:
        given: Any = yaml.safe_load(found[1]) if found else {}
    except yaml.YAMLError as error:
        raise SpaceError(f"{readme}: the front matter is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(given, dict):
        raise SpaceError(f"{readme}: the front matter is no list of names and values")
    defaults = {"title": name.replace("_", " ").capitalize(), "emoji": "🌱", "tags": ["open-reward-standard"]}
    matter = yaml.safe_dump(
        {**defaults, **given, "sdk": "docker", "app_port": APP_PORT}, sort_keys=False, allow_unicode=True
    )
    return f"---\n{matter}---\n{text[found.end() :] if found else text}"


def _copy(source: Path, target: Path) -> None:
    if source.is_symlink():  # it may lead out of the folder
        return
    if source.is_dir():
        ignored = shutil.ignore_patterns(*_LEFT_OUT, *_SECRET)
        shutil.copytree(source, target, ignore=lambda at, names: {*ignored(at, names), *_links(Path(at), names)})
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _links(folder: Path, names: list[str]) -> set[str]:
    return {name for name in names if (folder / name).is_symlink()}


def _matches(path: Path, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(path.name, pattern) for pattern in patterns)


def _secrets(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if _matches(path, _SECRET))
