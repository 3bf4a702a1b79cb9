"""`ors-env push`: an environment as a Hugging Face Space, up and answering when the command ends."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils.tqdm import disable_progress_bars

from envs import catalog, space

KEY_VARIABLE = "ENV_API_KEY"
_POLL_SECONDS = 2.0
_LOG_LINES = 20
_SHOWN_PATHS = 20
# Where the Hub does not say which commit runs, a stage that stays so long is not the build before's.
_SETTLING_SECONDS = 30.0
_BUILDING = {"BUILDING", "RUNNING_BUILDING"}
_FAILED = {"BUILD_ERROR", "RUNTIME_ERROR", "CONFIG_ERROR", "NO_APP_FILE", "DELETING"}
_STOPPED = {"PAUSED", "STOPPED"}
# A Space without the first was not made by a push, and one with more than the second is somebody's work.
_MARK = "envs/server/__init__.py"
_FRESH = {".gitattributes", "README.md"}


class PushError(Exception):
    """The Space could not be made or does not run; the message is for a person and holds no secret."""


@dataclass(frozen=True)
class Push:
    """What to push and where.

    Args:
        name: environment of the catalog.
        repo: `OWNER/NAME` of the Space.
        private: only its owner is to see the Space, or does already; requests need a token of the Hub.
        keys: of which the server asks for one in X-API-Key; none leave it open.
        token: of the Hub, with the right to write.
        wait: seconds for the build and for the first answer.
    """

    name: str
    repo: str
    private: bool
    keys: tuple[str, ...] = field(repr=False)
    token: str = field(repr=False)
    wait: float


def dry_run(name: str, repo: str) -> int:
    """Write the Space's folder to `build/space/NAME`, with a list of its files beside it, and show what would go.

    What an earlier dry run wrote there is replaced.

    Raises:
        PushError: the folder holds something else, or cannot be written.
        envs.space.SpaceError: the folder cannot be made.
    """
    target = Path("build", "space", name)
    written = target.with_name(f"{name}.txt")
    try:
        _clear(target, written)
        target.mkdir(parents=True)
        left_out = space.lay_out(name, target)
        written.write_text(
            "".join(f"{file}\n" for file in space.files(target)), encoding="utf-8", errors="surrogateescape"
        )
    except OSError as error:
        raise PushError(f"{target} cannot be written: {(error.strerror or str(error)).lower()}") from error
    print(f"would go to {constants.ENDPOINT}/spaces/{repo}, from {target}:")
    for file in space.files(target):
        print(f"  {file}")
    _tell_left_out(name, left_out)
    return 0


def _clear(target: Path, written: Path) -> None:
    """Take away what an earlier dry run wrote, and nothing else."""
    if not target.is_dir():
        return
    own = written.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if written.is_file() else []
    strange = sorted(set(space.files(target)) - set(own))
    if strange:
        raise PushError(f"{target} holds something else ({strange[0]}); remove it first")
    shutil.rmtree(target)


def run(name: str, repo: str, *, private: bool, with_key: bool, wait: float) -> int:
    """Create or update a Space, wait until it answers /health, and print how to train on it.

    Args:
        with_key: set the key in $ENV_API_KEY as the Space's secret of that name, so that the server asks for it.

    Raises:
        PushError: no token, no key that can be used, no permission, a Space that holds something else, a build that
            failed, or a server that never answers.
        envs.space.SpaceError: the folder cannot be made.
    """
    token = get_token()
    if token is None:
        raise PushError("no token for the Hub: run `hf auth login`, or set HF_TOKEN to a token that may write")
    keys = _keys() if with_key else ()
    disable_progress_bars()
    push = Push(name, repo, private, keys, token, wait)
    api = HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder, _explained(push):
        left_out = space.lay_out(name, Path(folder))
        _tell_left_out(name, left_out)
        commit, private = _upload(api, push, Path(folder))
    push = replace(push, private=private)
    with _explained(push):
        host = _await_running(api, push, commit)
    _await_health(push, host)
    _tell_lines(push, host)
    return 0


def _keys() -> tuple[str, ...]:
    from envs.server.settings import Settings, SettingsError

    try:  # as the server will read them
        keys = Settings.from_environ({KEY_VARIABLE: os.environ.get(KEY_VARIABLE, "")}).api_keys
    except SettingsError as error:
        raise PushError(str(error)) from error
    if not keys:
        raise PushError(f"--key-secret takes the key from {KEY_VARIABLE}, which is not set")
    return keys


def _upload(api: HfApi, push: Push, folder: Path) -> tuple[str, bool]:
    """Create or update the Space and return the commit that is to run and whether the Space is private.

    It may be so without --private: from before, or because new Spaces of its owner are.
    """
    api.create_repo(push.repo, repo_type="space", space_sdk="docker", private=push.private or None, exist_ok=True)
    there = api.space_info(push.repo)
    files = {file.rfilename for file in there.siblings or ()}
    if _MARK not in files and (strange := sorted(files - _FRESH)):
        raise PushError(f"{push.repo} holds something else ({strange[0]}): choose another name, or empty it first")
    if push.private and not there.private:
        api.update_repo_settings(push.repo, repo_type="space", private=True)
    if push.keys:  # before the code, so that the first start asks for one already
        api.add_space_secret(push.repo, KEY_VARIABLE, ",".join(push.keys))
    # What an earlier push left there and this one does not have goes.
    commit = api.upload_folder(
        repo_id=push.repo,
        repo_type="space",
        folder_path=folder,
        commit_message=f"Serve {push.name}",
        delete_patterns="*",
    )
    print(f"sent to {api.endpoint}/spaces/{push.repo}; waiting for the build")
    return commit.oid, push.private or bool(there.private)


def _await_running(api: HfApi, push: Push, commit: str) -> str:
    """Wait until the Space runs what was pushed and return its address, waking it where it sleeps.

    At first the Hub still tells of the build before: it runs, or it has failed.
    """
    deadline = time.monotonic() + push.wait
    restarted = built = False
    before, since = "", time.monotonic()
    while True:
        try:
            runtime = api.get_space_runtime(push.repo)
            stage, sha = str(runtime.stage), runtime.raw.get("sha")
            host = api.space_info(push.repo).host or ""
            if stage != before:
                before, since = stage, time.monotonic()
            built = built or stage in _BUILDING
            settled = built or time.monotonic() - since > min(_SETTLING_SECONDS, push.wait / 2)
            if stage in _FAILED and (sha == commit or settled):
                raise PushError(_build_failure(api, push, stage))
            if stage == "RUNNING" and host and (sha == commit or (sha is None and settled)):
                return host.rstrip("/")
            if stage == "SLEEPING" and host:
                _healthy(push, host)  # a visit wakes it
            elif stage in _STOPPED and not restarted:
                api.restart_space(push.repo)
                restarted = True
            if time.monotonic() > deadline:
                what = "still runs an earlier build" if stage == "RUNNING" and sha else f"is still {stage}"
                raise PushError(f"{push.repo} {what} after {push.wait:g} s; see {_page(api, push)}")
        except (HfHubHTTPError, httpx2.HTTPError) as error:
            if not _passing(error) or time.monotonic() > deadline:
                raise
        time.sleep(min(_POLL_SECONDS, push.wait / 10))


def _passing(error: HfHubHTTPError | httpx2.HTTPError) -> bool:
    """Whether the Hub may answer the next time: it is asked some hundred times while a Space is built."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return True


def _await_health(push: Push, host: str) -> None:
    deadline = time.monotonic() + push.wait
    while (answer := _healthy(push, host)) != "200":
        if time.monotonic() > deadline:
            raise PushError(f"{host}/health did not answer 200 within {push.wait:g} s, the last answer: {answer}")
        time.sleep(min(_POLL_SECONDS, push.wait / 10))


def _healthy(push: Push, host: str) -> str:
    return _asked(push, host, "/health")


def _asked(push: Push, host: str, path: str) -> str:
    """Return the status that the running server answers, or why it did not."""
    # A private Space answers nobody without a token of the Hub; a public one is not told it.
    headers = {"authorization": f"Bearer {push.token}"} if push.private else {}
    try:
        return str(httpx2.get(f"{host.rstrip('/')}{path}", headers=headers, timeout=10).status_code)
    except httpx2.HTTPError as error:
        return str(error) or type(error).__name__


def _build_failure(api: HfApi, push: Push, stage: str) -> str:
    lines: list[str] = []
    with suppress(HfHubHTTPError, httpx2.HTTPError):  # why it failed counts for more than its log
        for text in api.fetch_space_logs(push.repo, build=stage != "RUNTIME_ERROR"):
            lines += text.splitlines()
    tail = "\n".join(f"  {line}" for line in lines[-_LOG_LINES:])
    return f"{push.repo} does not run: {stage}; see {_page(api, push)}\n{tail or '  (no log)'}"


@contextmanager
def _explained(push: Push) -> Iterator[None]:
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status == 401:
            raise PushError(
                "the Hub does not know the token: run `hf auth login`, or set HF_TOKEN to a valid one"
            ) from error
        if status == 403:
            owner = push.repo.partition("/")[0]
            raise PushError(
                f"the token may not write to Spaces of {owner}: it needs the right to write there"
            ) from error
        told = error.server_message or str(error).splitlines()[0]
        raise PushError(_clean(push, f"the Hub answered {status}: {told}")) from error
    except HFValidationError as error:
        raise PushError(" ".join(str(error).split())) from error
    except httpx2.HTTPError as error:
        raise PushError(_clean(push, f"{constants.ENDPOINT} cannot be reached: {error}")) from error
    except PushError as error:
        raise PushError(_clean(push, str(error))) from error


def _clean(push: Push, text: str) -> str:
    for secret in (push.token, *push.keys):
        text = text.replace(secret, "***")
    return text


def _page(api: HfApi, push: Push) -> str:
    return f"{api.endpoint}/spaces/{push.repo}"


def _tell_left_out(name: str, left_out: Mapping[str, Sequence[str]]) -> None:
    for reason, paths in left_out.items():
        more = f" and {len(paths) - _SHOWN_PATHS:,} more" if len(paths) > _SHOWN_PATHS else ""
        print(f"left out of {name}, {reason}: {', '.join(paths[:_SHOWN_PATHS])}{more}")
    card = catalog.card(name)
    if card.problem:
        print(f"ors-env: warning: {card.problem}", file=sys.stderr)


def _tell_lines(push: Push, host: str) -> None:
    first = '.split(",")[0].strip()' if len(push.keys) > 1 else ""  # clients send one of them
    # The key may be of an earlier push, or of the Space's settings.
    keyed = push.keys or _asked(push, host, "/list_environments") == "401"
    more = f', api_key=os.environ["{KEY_VARIABLE}"]{first}' if keyed else ""
    more += ', hf_token=os.environ["HF_TOKEN"]' if push.private else ""
    print(f"{push.name} at {host}")
    if more:
        print("  import os")
    print("  from trainer import OpenRewardSpec")
    print(f'  spec = OpenRewardSpec("{host}", env_name="{push.name}", split="train"{more})')
