"""Which files of an environment a Space gets: what git tracks, and never what looks like a secret."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path, PurePosixPath

_CACHES = ("__pycache__", "*.pyc", "*.egg-info", "node_modules", "*~", "*.swp", "*.bak", "*.orig", "*.tmp")
_KEYS = (
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa*", "id_ecdsa*", "id_ed25519*"),
    *("credentials*", "secrets*"),
)
_TESTS = ("test_*.py", "conftest.py")
# Only where git does not say what belongs to the environment: as a word of a name, in any case.
_GUESSED_CACHES = {"cache", "caches", "venv", "virtualenv"}
_GUESSED_SECRETS = {
    *("env", "secret", "secrets", "token", "tokens", "key", "keys", "apikey", "apikeys", "privkey", "pgpass"),
    *("password", "passwords", "passwd", "passphrase", "credential", "credentials", "creds", "netrc", "htpasswd"),
    *("pem", "p12", "pfx", "jks", "keystore", "kdbx", "rsa", "dsa", "ecdsa", "ed25519", "serviceaccount", "dump"),
}

SECRET, CACHE, LINK, UNTRACKED, TEST = (
    "may be secret",
    "caches and copies",
    "links, which may lead elsewhere",
    "not tracked by git",
    "tests that nothing imports",
)


def divide(home: Path, entry: str) -> tuple[list[str], dict[str, list[str]]]:
    """Divide the files of a folder.

    Args:
        home: the folder, no link.
        entry: the file of it that git must know, to be asked what belongs there.

    Returns:
        The files that go, and by the reason those that stay, a folder of which nothing goes as one entry that ends
        in "/"; both relative to the folder, sorted.
    """
    tracked = _tracked(home, entry)
    goes: list[str] = []
    stays: dict[str, list[str]] = {}
    for path in _walk(home, "", tracked, stays):
        if reason := _reason(home, path, tracked):
            stays.setdefault(reason, []).append(path)
        else:
            goes.append(path)
    tests = [path for path in goes if _matches(PurePosixPath(path).name, _TESTS)]
    code = [(home / path).read_bytes() for path in goes if path.endswith(".py") and path not in tests]
    for test in tests:
        if not _is_mentioned(test, code):
            goes.remove(test)
            stays.setdefault(TEST, []).append(test)
    return goes, stays


def _walk(home: Path, inside: str, tracked: frozenset[str] | None, stays: dict[str, list[str]]) -> Iterator[str]:
    for entry in sorted(os.scandir(home / inside), key=lambda entry: entry.name):
        path = f"{inside}{entry.name}"
        if not entry.is_dir(follow_symlinks=False):
            yield path
        elif reason := _reason(home, f"{path}/", tracked):
            stays.setdefault(reason, []).append(f"{path}/")
        else:
            yield from _walk(home, f"{path}/", tracked, stays)


def _reason(home: Path, path: str, tracked: frozenset[str] | None) -> str:
    """Return why a file, or a folder with all that is in it, stays; "" where it goes."""
    name = PurePosixPath(path).name
    if (home / path).is_symlink():
        return LINK
    if _matches(name.lower(), _CACHES):
        return CACHE
    if name.startswith(".") or _matches(name.lower(), _KEYS):
        return SECRET
    if tracked is not None:
        known = any(one.startswith(path) for one in tracked) if path.endswith("/") else path in tracked
        return "" if known else UNTRACKED
    words = set(_words(name))
    if words & _GUESSED_CACHES:
        return CACHE
    return SECRET if words & _GUESSED_SECRETS else ""


def _words(name: str) -> list[str]:
    """Return the words of a name, "ApiKey.txt" as "api", "key", "txt", and each two neighbours as one word too."""
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower())
    return [*words, *(one + two for one, two in pairwise(words))]


def _tracked(home: Path, entry: str) -> frozenset[str] | None:
    """Return the files that git tracks, None where it does not know this folder, as with one just made."""
    try:
        done = subprocess.run(["git", "-C", str(home), "ls-files", "-z"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no git, or no work tree
        return None
    found = frozenset(os.fsdecode(path) for path in done.stdout.split(b"\0") if path)
    return found if entry in found else None


def _is_mentioned(test: str, code: list[bytes]) -> bool:
    word = re.compile(rf"\b{re.escape(PurePosixPath(test).stem)}\b".encode())
    return any(word.search(text) for text in code)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
