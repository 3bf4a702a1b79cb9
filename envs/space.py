"""The folder of a Hugging Face Space: one environment, the image's recipe, and nothing that the image does not need."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import yaml

from envs import catalog
from envs.card import Card
from envs.space_files import divide

APP_PORT = 7860
_RECIPE = "Dockerfile.env"
_UNTITLED = "# {}\n"
_PACKAGES = ("pyproject.toml", "constraints.txt")
# Of envs/ itself: what serves. Whatever else is there is another environment, or does not belong there.
_SERVING = ("__init__.py", "card.py", "catalog.py", "cli.py", "listing.py", "output.py", "serving.py")


class SpaceError(Exception):
    """The folder cannot be made; the message is one line for a person."""


def lay_out(name: str, target: Path) -> dict[str, list[str]]:
    """Write the Space of an environment into an empty folder.

    Returns:
        By the reason, what of the environment's folder was left out, relative to it.

    Raises:
        SpaceError: this is no checkout with the image's recipe, or the environment's code is among what is left out.
        envs.catalog.CatalogError: there is no such environment.
    """
    home = catalog.folder(name).resolve()
    checkout = catalog.ROOT.parent
    missing = [file for file in (_RECIPE, *_PACKAGES) if not (checkout / file).is_file()]
    if missing:
        raise SpaceError(f"{checkout} has no {missing[0]}: a Space is made from a checkout of the repository")
    dockerfile = _recipe((checkout / _RECIPE).read_text(encoding="utf-8"), name)
    goes, stays = divide(home, "environment.py")
    for reason, paths in stays.items():
        if "environment.py" in paths:
            raise SpaceError(f"{home / 'environment.py'} cannot go to a Space: {reason}")
    _copy(home, goes, target / "envs" / name)
    _copy(catalog.ROOT, _SERVING, target / "envs")
    server = catalog.ROOT / "server"
    _copy(server, divide(server, "__init__.py")[0], target / "envs" / "server")
    _copy(checkout, _PACKAGES, target)
    (target / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    (target / "README.md").write_text(_card(catalog.card(name), name), encoding="utf-8")
    return stays


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


def _card(card: Card, name: str) -> str:
    """Return the environment's README with the front matter that Spaces asks for."""
    defaults = {"title": name.replace("_", " ").capitalize(), "emoji": "🌱", "tags": ["open-reward-standard"]}
    matter = yaml.safe_dump(
        {**defaults, **card.matter, "sdk": "docker", "app_port": APP_PORT}, sort_keys=False, allow_unicode=True
    )
    return f"---\n{matter}---\n{card.body or _UNTITLED.format(name)}"


def _copy(source: Path, paths: Iterable[str], target: Path) -> None:
    for path in paths:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, target / path)
