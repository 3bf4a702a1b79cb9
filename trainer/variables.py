"""Keys, tokens and secrets by the name of the environment variable that holds them, so that no file holds them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from trainer.ors.errors import ConfigurationError

VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_CREDENTIALS = {
    *("auth", "authorization", "apikey", "cookie", "credential", "key", "pat"),
    *("passphrase", "passwd", "password", "pwd", "secret", "token"),
}
_USERINFO = re.compile(r"(?<=://)[^/?#@]*@")
_PASSWORD_IN_URL = re.compile(r"://[^/?#@]*:([^/?#@]*)@|://([^/?#:@]+)@")


def filled(text: str, what: str) -> str:
    """The text with each `${VARIABLE}` replaced. `what` is the key that it stands under.

    Raises:
        ConfigurationError: a variable is not set, or empty.
    """
    return VARIABLE.sub(lambda match: _value(match[1], what), text)


def filled_url(url: str) -> str:
    """The URL with each `${VARIABLE}` replaced; in the place of a user name and password percent-encoded, since a
    password may have any character, also those that end that place.

    Raises:
        ConfigurationError: a variable is not set, or empty, or what comes of it is no URL, which is then not shown.
    """
    encoded = _USERINFO.sub(lambda place: VARIABLE.sub(lambda m: quote(_value(m[1], "the url"), ""), place[0]), url)
    whole = filled(encoded, "the url")
    if whole != url and "://" in whole:
        try:
            valid = urlsplit(whole).port != 0
        except ValueError:
            valid = False
        if not valid:
            raise ConfigurationError(f"what the variables make of the url {url} is no URL of an ORS server")
    return whole


def filled_deep(value: Any, what: str) -> Any:
    """The value with each `${VARIABLE}` in its texts replaced, at any depth. Raises ConfigurationError as `filled`."""
    if isinstance(value, Mapping):
        return {key: filled_deep(item, f"{what}: {key}") for key, item in value.items()}
    if isinstance(value, list):
        return [filled_deep(item, what) for item in value]
    return filled(value, what) if isinstance(value, str) else value


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
    """Raises ConfigurationError where a key or token is given as itself. `what` is its key, or its flag with `--`."""
    if value is not None and not VARIABLE.fullmatch(value):
        said, kept = f"{what} takes ${{VARIABLE}}", "so that the key itself stands in no file"
        if what.startswith("--"):
            name = "HF_TOKEN" if what.endswith("token") else "VARIABLE"
            said = f"{what} takes the name of a variable, in quotes: '${{{name}}}'"
            kept = "so that the key itself stands in no file and no shell's history"
        raise ConfigurationError(f"{said}, {kept}")


def check_headers(headers: Mapping[str, Any]) -> None:
    """Raises ConfigurationError for a header that is given as itself: its name does not tell whether it is a secret."""
    for name, value in headers.items():
        if not VARIABLE.search(str(value)):
            raise ConfigurationError(f"headers: {name} takes ${{VARIABLE}}, so that its value stands in no file")


def check_nested(what: str, value: Any, is_filled: bool, is_secret: bool = False) -> None:
    """Raises ConfigurationError for a credential that is given as itself, at any depth.

    Args:
        what: The key that the value stands under.
        value: Anything that YAML can say.
        is_filled: Whether variables are filled in there. Where they are not, a credential is refused in any form.
        is_secret: Whether a key further out is a credential by its name.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            check_nested(f"{what}: {key}", item, is_filled, is_secret or _names_credential(str(key)))
    elif isinstance(value, list):
        for item in value:
            check_nested(what, item, is_filled, is_secret)
    elif isinstance(value, str) and is_secret and not (is_filled and VARIABLE.fullmatch(value)):
        way = "takes ${VARIABLE}" if is_filled else "cannot be given here"
        raise ConfigurationError(f"{what} {way}, so that no secret stands in a file")


def check_url(url: str) -> None:
    """Raises ConfigurationError for a URL with a password, or a token in its place, that is given as itself; and for
    one with a query, where a key could stand and which a server's address cannot have."""
    if "://" in url and re.search(r"[?#]", url):
        raise ConfigurationError(
            "the url has a query or a fragment, which no server's address has; api_key sends a key"
        )
    found = _PASSWORD_IN_URL.search(url)
    if found and not VARIABLE.fullmatch(found[1] or found[2] or ""):
        raise ConfigurationError(
            "the password in the URL takes ${VARIABLE}, as in https://me:${PASSWORD}@host, so that it stands in no file"
        )


def _names_credential(key: str) -> bool:
    """Whether the last word of a key, as in `hub_token` or `apiKeys`, is one for what must not be told."""
    words = _WORD.findall(key)
    return bool(words) and words[-1].lower().removesuffix("s") in _CREDENTIALS
