"""Where an environment is and how it is spoken to: plain data that pickles, compares and prints without its secrets."""

from __future__ import annotations

import ipaddress
import os
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from trainer.ors.errors import ConfigurationError

Secret = str | tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Endpoint:
    """One environment behind one address.

    Args:
        target: Catalog name (`owner/name`) or URL of an ORS server.
        env_name: Which of the server's environments; None for its first.
        api_key: Key given by the user for this very target. The platform's key is looked up for catalog targets alone.
        headers: Further headers for every request.
        secrets: Session secrets: a value, or a value and the domains it may be sent to.
        open_timeout: Seconds in which a session must be open, retries included. A backend that says it is still
            starting is waited for longer: `OPENREWARD_STARTING_RIDE_OUT_S`, 600 s by default, as in the SDK.
        call_timeout: Seconds in which a tool call must have come back.
        keepalive: Seconds without a request after which an open session is pinged.
        max_concurrency: Requests under way at once; None for no bound but the number of rollouts.
    """

    target: str
    env_name: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[tuple[str, Secret], ...] = field(default=(), repr=False)
    open_timeout: float = 120.0
    call_timeout: float = 600.0
    keepalive: float = 15.0
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        if not self.target:
            raise ConfigurationError("an environment needs a target: a catalog name or the URL of an ORS server")
        if self.is_url:
            parts = urlsplit(self.target)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ConfigurationError(
                    f"{self.target!r} is no URL of an ORS server: http:// or https://, then a host"
                )
        for name in ("open_timeout", "call_timeout", "keepalive"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} is a number of seconds above 0, not {getattr(self, name)!r}")
        if self.max_concurrency is not None and self.max_concurrency < 1:
            raise ConfigurationError(f"max_concurrency is at least 1, not {self.max_concurrency!r}")

    @property
    def is_url(self) -> bool:
        """Whether the target is a server of its own rather than a name in the catalog."""
        return "://" in self.target

    @property
    def base_url(self) -> str:
        """The one URL that serves everything of a self-hosted target. `OPENREWARD_SESSION_URL`, set by the user, wins:
        the SDK reads it so, and the seed's quick start sets it."""
        return (os.environ.get("OPENREWARD_SESSION_URL") or self.target).rstrip("/")

    @property
    def address(self) -> str:
        """The target as it may be shown: without a user name and password."""
        if not self.is_url:
            return self.target
        parts = urlsplit(self.base_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def swallowing_proxy(self) -> str | None:
        """The proxy variable that would take requests to this local target elsewhere, if there is one."""
        parts = urlsplit(self.base_url if self.is_url else "")
        host = parts.hostname
        if host is None or not _is_local(host) or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
        return f"{parts.scheme}_proxy" if urllib.request.getproxies().get(parts.scheme) else None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))
