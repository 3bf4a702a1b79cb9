"""What to do about a server that does not let in, or is not there: asked and said only once it has refused."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from trainer.ors.endpoint import Endpoint
from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.ors.http import HTTPStatus
from trainer.ors.keepalive import Keepalive
from trainer.ors.sessions import connect

NO_KEY = (
    "no key was sent: it is given as api_key= in Python, as api_key: ${VARIABLE} in an entry of environments: "
    "in a --config file, to ors-train inspect as --api_key '${VARIABLE}' (hf_token for a private Hugging Face Space)"
)


async def advise(status: HTTPStatus, endpoint: Endpoint, keepalive: Keepalive) -> None:
    """Note on a refusal what the user can do about it.

    Raises:
        ConfigurationError: the address goes on after the server's, with the path of an environment, say.
    """
    if status.status in (401, 403):
        status.add_note(_of_keys(endpoint))
    elif status.gone and endpoint.is_url and not endpoint.overridden:
        await _check_path(endpoint, keepalive)


def _of_keys(endpoint: Endpoint) -> str:
    sent = [
        what
        for what, is_given in (
            ("api_key", endpoint.api_key),
            ("hf_token or headers", endpoint.headers),
            ("password in the URL", endpoint.is_url and urlsplit(endpoint.base_url).username),
        )
        if is_given or (what == "api_key" and not endpoint.is_url)
    ]
    return f"the {' and the '.join(sent)} that it was sent did not open it" if sent else NO_KEY


async def _check_path(endpoint: Endpoint, keepalive: Keepalive) -> None:
    parts = urlsplit(endpoint.target)
    path, _, _ = parts.path.rstrip("/").rpartition("/")
    if not parts.path.strip("/"):
        return
    server = replace(endpoint, target=parts._replace(path=path).geturl(), env_name=None)
    connection = connect(server, keepalive)(None)
    try:
        names = await connection.wire.request("GET", "/list_environments")
    except EnvironmentFailure:
        return
    finally:
        await connection.close()
    if isinstance(names, list):
        raise ConfigurationError(
            f"{endpoint.address} is no server's address, and {server.address} is one: choose the environment with "
            f"env_name; it has: {', '.join(map(str, names))}"
        )
