"""Keys, tokens and secrets by the name of the environment variable that holds them, so that no file holds them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.ors.errors import ConfigurationError

VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_CREDENTIAL = re.compile(r"auth|cookie|key|token|secret|password", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(r"://[^/?#@]*:([^/?#@]*)@|://([^/?#:@]+)@")


def filled(text: str, what: str) -> str:
    """The text with each `${VARIABLE}` replaced. `what` is the key that it stands under.

    Raises:
        ConfigurationError: a variable is not set, or empty.
    """
    return VARIABLE.sub(lambda match: _value(match[1], what), text)


def secret(name: str, given: Any) -> str | tuple[str, Sequence[str]]:
    """A session secret from `VARIABLE` or `{variable: VARIABLE, domains: […]}`.

    Raises:
        ConfigurationError: it is neither, or the variable is not set, or empty.
    """
    variable, domains = (given.get("variable"), given.get("domains")) if isinstance(given, Mapping) else (given, None)
    what = f"secrets: {name}"
    if not isinstance(variable, str) or not _NAME.fullmatch(variable):  # not shown: it may be the secret itself
        raise ConfigurationError(f"{what} takes the name of the environment variable that holds the secret")
    if domains is not None and not (isinstance(domains, list) and all(isinstance(domain, str) for domain in domains)):
        raise ConfigurationError(f"{what}: domains is a list of host names")
    value = _value(variable, what)
    return value if domains is None else (value, domains)


def _value(variable: str, what: str) -> str:
    value = os.environ.get(variable)
    if not value:
        state = "is not set" if value is None else "is empty"
        raise ConfigurationError(f"the environment variable {variable} {state}, and {what} is taken from it")
    return value


def check_by_variable(what: str, value: str | None) -> None:
    """Raises ConfigurationError where a key or token is given as itself."""
    if value is not None and not VARIABLE.fullmatch(value):
        raise ConfigurationError(f"{what} takes ${{VARIABLE}}, so that the key itself stands in no file")


def check_headers(headers: Mapping[str, Any]) -> None:
    """Raises ConfigurationError for a header that is a credential by its name and is given as itself."""
    for name, value in headers.items():
        if _CREDENTIAL.search(str(name)) and not VARIABLE.search(str(value)):
            raise ConfigurationError(f"headers: {name} takes ${{VARIABLE}}, so that its value stands in no file")


def check_url(url: str) -> None:
    """Raises ConfigurationError for a URL with a password, or a token in its place, that is given as itself."""
    found = _PASSWORD_IN_URL.search(url)
    if found and not VARIABLE.fullmatch(found[1] or found[2] or ""):
        raise ConfigurationError(
            "the password in the URL takes ${VARIABLE}, as in https://me:${PASSWORD}@host, so that it stands in no file"
        )
