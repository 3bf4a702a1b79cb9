"""Where an environment is and how it is spoken to: plain data that pickles, compares and prints without its secrets."""

from __future__ import annotations

import ipaddress
import os
import re
import urllib.request
from dataclasses import dataclass
from urllib.parse import urlsplit

from yarl import URL

from trainer.ors.errors import ConfigurationError

Secret = str | tuple[str, tuple[str, ...]]


@dataclass(frozen=True, repr=False)
class Endpoint:
    """One environment behind one address.

    Args:
        target: Catalog name (`owner/name`) or URL of an ORS server.
        env_name: Which of the server's environments; None for its first.
        api_key: Key given by the user, sent to `base_url`. The platform's is looked up for catalog targets alone.
        headers: Further headers for every request, sent to `base_url`.
        secrets: Session secrets: a value, or a value and the domains it may be sent to.
        open_timeout: Seconds in which a session must be open, retries included. A backend that says it is still
            starting is waited for longer: `OPENREWARD_STARTING_RIDE_OUT_S`, 600 s by default, as in the SDK.
        call_timeout: Seconds in which a tool call must have come back.
        keepalive: Seconds between two pings of an open session, sent whatever the process does meanwhile.
        max_concurrency: Openings and calls under way at once, and as many closings; None for no bound but the number
            of rollouts.
    """

    target: str
    env_name: str | None = None
    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, Secret], ...] = ()
    open_timeout: float = 120.0
    call_timeout: float = 600.0
    keepalive: float = 15.0
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        if not self.target:
            raise ConfigurationError("an environment needs a target: a catalog name or the URL of an ORS server")
        if not self.is_url and _looks_like_host(self.target):
            said = f"{_shown(self.target)!r} is no catalog name (owner/name)"
            raise ConfigurationError(f"{said}; if it is a server's address, write http:// before it")
        if self.is_url:
            _check_url(self.target, "the target")
            if urlsplit(self.target).username and any(name.lower() == "authorization" for name, _ in self.headers):
                raise ConfigurationError(f"{self.address}: a password in the URL or an Authorization header, not both")
        for name, value in (*self.headers, ("X-API-Key", self.api_key or "")):
            if not _is_header(name, value):
                raise ConfigurationError(
                    f"the value for the header {name!r} cannot be sent: it has line breaks or such"
                )
        for name in ("open_timeout", "call_timeout", "keepalive"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} is a number of seconds above 0, not {getattr(self, name)!r}")
        if self.max_concurrency is not None and self.max_concurrency < 1:
            raise ConfigurationError(f"max_concurrency is at least 1, not {self.max_concurrency!r}")

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r}, env_name={self.env_name!r})"

    @property
    def is_url(self) -> bool:
        """Whether the target is a server of its own rather than a name in the catalog."""
        return "://" in self.target

    @property
    def base_url(self) -> str:
        """The one URL that serves everything of a self-hosted target. `OPENREWARD_SESSION_URL`, set by the user, wins:
        the SDK reads it so, and the seed's quick start sets it. What is given for the target (key, headers, secrets)
        then goes there, and nothing goes to the target's own host."""
        override = os.environ.get("OPENREWARD_SESSION_URL")
        if override:
            _check_url(override, "OPENREWARD_SESSION_URL")
        return (override or self.target).rstrip("/")

    @property
    def address(self) -> str:
        """The target as it may be shown: without a user name and password."""
        if not self.is_url:
            return self.target
        return _without_password(self.base_url)

    @property
    def overridden(self) -> bool:
        """Whether `OPENREWARD_SESSION_URL` sends requests elsewhere than the target says."""
        return self.is_url and self.base_url != self.target.rstrip("/")

    def swallowing_proxy(self) -> str | None:
        """The proxy variable that would take requests to this local target elsewhere, if there is one."""
        parts = urlsplit(self.base_url if self.is_url else "")
        host = parts.hostname
        if host is None or not _is_local(host) or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
        if not urllib.request.getproxies().get(parts.scheme):
            return None
        return proxy_variable(parts.scheme)


def proxy_variable(scheme: str) -> str:
    """The variable that names the proxy for a scheme, as it is spelt where it is set."""
    name = f"{scheme}_proxy"
    return next((name for name in (name, name.upper()) if os.environ.get(name)), name)


def _check_url(url: str, what: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(URL(url).host) and parts.port != 0
    except ValueError:
        valid = False
    after = re.sub(r"^[^/]*://[^/?#]*", "", url)
    if not valid or "@" in after or re.search(r"\s", url):
        hint = r"; in a password, / ? # @ \ are written %2F %3F %23 %40 %5C" if "@" in after or "\\" in url else ""
        said = f"{what} is no URL of an ORS server: {_shown(url)!r}; http:// or https://, then a host{hint}"
        raise ConfigurationError(said)
    if "?" in after or "#" in after:
        said = f"{what}, {_shown(url)}, goes on with ? or #: a server's address has no such part"
        raise ConfigurationError(f"{said}; a key is given as api_key or in headers")


def _shown(url: str) -> str:
    """What may be shown of an address that is none: no user name, no password, nothing that may be one."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|", url)[0]  # type: ignore[index]
    host = re.split(r"[/?#\s]", url[len(scheme) :].rpartition("@")[2])[0]
    return scheme + (host if re.fullmatch(r"[^:]*(:\d*)?|\[.*", host) else host.partition(":")[0])


def _looks_like_host(target: str) -> bool:
    """Whether a target without `://` is the address of a server, and no name in the catalog."""
    host, slash, _ = target.partition("/")
    return ":" in target or "@" in target or host.lower() == "localhost" or ("." in host and not slash)


def _without_password(url: str) -> str:
    return re.sub(r"(?<=://)[^/?#]*@", "", url)


def _is_header(name: str, value: str) -> bool:
    return bool(re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)) and not re.search(
        r"[\x00-\x08\x0a-\x1f\x7f]", value
    )


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))
