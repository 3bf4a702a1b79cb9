"""`ors-env push` through the real `huggingface_hub` client to a stand-in of the Hub: what is sent, and what is told."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from envs import space
from tests import forked
from tests.envs.conftest import Checkout
from tests.envs.hub import STAGES, TOKEN
from tests.servers import ROOT, free_port, running, serve_script, variables

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
KEY = "space-key-71aa"
NEEDED = {
    "Dockerfile",
    "README.md",
    "pyproject.toml",
    "constraints.txt",
    "envs/__init__.py",
    "envs/cli.py",
    "envs/catalog.py",
    "envs/output.py",
    "envs/card.py",
    "envs/listing.py",
    "envs/serving.py",
}
SECRETS = (
    *(
        "prod.env",
        "server.PEM",
        "secret.json",
        "Credentials.json",
        "hf_token",
        "token.txt",
        "api_key.txt",
        "ApiKey.json",
    ),
    *("service-account.json", "password.txt", "keystore.jks", "my_id_rsa", "dump.sqlite3", "data/Tokens.csv"),
)
STRANGERS = ("app.py~", "cache/a", "venv/lib/a.py", "test_extra.py")
GOES = ("notes.txt", "monkeys.json", "tokenizer.json", "test_cases.py", "data/world.sqlite3")


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with serve_script(HERE / "hub.py") as url:
        yield url


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose echo environment has company that must not leave the machine."""
    path = tmp_path_factory.mktemp("push")
    Checkout(path)
    for file in ("pyproject.toml", "constraints.txt", "Dockerfile.env"):
        shutil.copy(ROOT / file, path)
    home = path / "envs" / "echo"
    for file in (*SECRETS, *STRANGERS, *GOES, ".env", "server.key", "credentials.json", "test_echo.py", "env/lib/a.py"):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text("private")
    (home / "targets.py").write_text(f"{(home / 'targets.py').read_text()}\nfrom . import test_cases\n")
    (home / "__pycache__").mkdir()
    (home / "__pycache__" / "x.pyc").touch()
    (home / "outside").symlink_to("/etc/hostname")
    for file in (
        "chess/environment.py",
        "draft_env/tasks.py",
        "scratch/notes.txt",
        "prod.env",
        "todo.txt",
        "shared.py",
    ):
        (path / "envs" / file).parent.mkdir(exist_ok=True)
        (path / "envs" / file).write_text("private")
    return path


class Pusher:
    """Runs the command in the project, and asks the hub what it was sent by that."""

    def __init__(self, project: Path, hub: str) -> None:
        self.project = project
        self.hub = hub
        self.before = len(self._all())

    def push(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = {name: value for name, value in variables(0).items() if not name.startswith("HF_")}
        own |= {"PYTHONPATH": str(self.project), "HF_ENDPOINT": self.hub, "HF_HOME": str(self.project / "home")}
        own |= {"HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1", **env}
        own = {name: value for name, value in own.items() if value}
        done = forked.run(["-m", "envs.cli", "push", *arguments], env=own, cwd=self.project)
        for secret in (TOKEN, KEY):
            assert secret not in done.stdout + done.stderr
        return done

    def seen(self, method: str = "", path: str = "") -> list[dict[str, Any]]:
        sent = self._all()[self.before :]
        return [one for one in sent if one["method"].startswith(method) and one["path"].endswith(path)]

    def committed(self) -> dict[str, str]:
        """The files of the commit, by path."""
        (commit,) = self.seen("POST", "/commit/main")
        files = [line["value"] for line in commit["body"] if line["key"] == "file"]
        return {file["path"]: base64.b64decode(file["content"]).decode() for file in files}

    def deleted(self) -> set[str]:
        (commit,) = self.seen("POST", "/commit/main")
        return {line["value"]["path"] for line in commit["body"] if line["key"] == "deletedFile"}

    def _all(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{self.hub}/_seen").json()
        return found


@pytest.fixture
def pusher(project: Path, hub: str) -> Pusher:
    return Pusher(project, hub)


def test_a_space_is_made_sent_and_told_how_to_train_on(pusher: Pusher) -> None:
    done = pusher.push("echo", "--space", "ada/echo")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    (created,) = pusher.seen("POST", "/api/repos/create")
    assert created["body"] == [{"name": "echo", "organization": "ada", "type": "space", "sdk": "docker"}]
    assert created["authorization"] == f"Bearer {TOKEN}"
    assert not pusher.seen("POST", "/secrets")
    host = f"{pusher.hub}/running/ada/echo"
    assert done.stdout.splitlines()[-3:] == [
        f"echo at {host}",
        "  from trainer import OpenRewardSpec",
        f'  spec = OpenRewardSpec("{host}", env_name="echo", split="train")',
    ]
    (visit,) = pusher.seen("GET", "/running/ada/echo/health")
    assert visit["authorization"] is None


def test_only_what_the_image_needs_is_sent(pusher: Pusher) -> None:
    done = pusher.push("echo", "--space", "ada/files")
    files = pusher.committed()
    own = {f"envs/echo/{file}" for file in ("__init__.py", "environment.py", "targets.py", "README.md", *GOES)}
    assert {file for file in files if not file.startswith("envs/server/")} == NEEDED | own
    server = {f"envs/server/{file.name}" for file in (ROOT / "envs" / "server").glob("*.py")}
    page = {f"envs/server/static/{file.name}" for file in (ROOT / "envs" / "server" / "static").iterdir()}
    assert {file for file in files if file.startswith("envs/server/")} == server | page
    told = done.stdout.splitlines()
    secrets = {".env", "credentials.json", "server.key", "env/", *SECRETS}
    assert f"left out of echo, may be secret: {', '.join(sorted(secrets))}" in told
    assert "left out of echo, caches and copies: __pycache__/, app.py~, cache/, venv/" in told
    assert "left out of echo, links, which may lead elsewhere: outside" in told
    assert "left out of echo, tests that nothing imports: test_echo.py, test_extra.py" in told


def test_a_space_serves_with_nothing_but_its_own_files(tmp_path: Path) -> None:
    space.lay_out("echo", tmp_path)
    port = free_port()
    command = [sys.executable, "-m", "envs.cli", "serve", "echo", "--port", str(port)]
    with running(command, port, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path) as url:
        assert httpx.get(f"{url}/list_environments").json() == ["echo"]


def test_where_git_knows_the_environment_it_says_what_goes(pusher: Pusher, tmp_path: Path) -> None:
    home = tmp_path / "real_home"
    shutil.copytree(ROOT / "envs" / "echo", home, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("answer_key.json", "keys/a.txt", "server.pem", ".env", "untracked.txt", "scratch/b.txt"):
        (home / file).parent.mkdir(exist_ok=True)
        (home / file).write_text("private")
    tracked = ["*.py", "README.md", "answer_key.json", "keys", "server.pem", ".env"]
    for command in (["init", "-q"], ["add", "--", *tracked]):
        subprocess.run(["git", "-C", str(home), *command], check=True)
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "linked").symlink_to(home)
    done = pusher.push("linked", "--space", "ada/x", "--dry-run", ORS_ENVS_PATH=str(tmp_path / "envs"))
    assert done.returncode == 0, done.stderr
    sent = {line.strip() for line in done.stdout.splitlines() if line.startswith("  envs/linked/")}
    names = ("__init__.py", "environment.py", "targets.py", "README.md", "answer_key.json", "keys/a.txt")
    assert sent == {f"envs/linked/{name}" for name in names}
    told = done.stdout.splitlines()
    assert "left out of linked, may be secret: .env, .git/, server.pem" in told
    assert "left out of linked, not tracked by git: scratch/, untracked.txt" in told


def test_an_environment_whose_code_cannot_go_is_refused(pusher: Pusher, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "environment.py").symlink_to(ROOT / "envs" / "echo" / "environment.py")
    done = pusher.push("odd", "--space", "ada/x", "--dry-run", ORS_ENVS_PATH=str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "environment.py cannot go to a Space: links, which may lead elsewhere" in done.stderr


def test_the_recipe_is_the_images_own_with_the_spaces_defaults(pusher: Pusher) -> None:
    pusher.push("echo", "--space", "ada/recipe")
    recipe = (ROOT / "Dockerfile.env").read_text()
    sent = pusher.committed()["Dockerfile"]
    changed = [(was, now) for was, now in zip(recipe.splitlines(), sent.splitlines(), strict=True) if was != now]
    assert [now for _, now in changed] in (["ARG ENV=echo", "ARG PORT=7860"], ["ARG PORT=7860"])
    assert "ARG ENV=echo" in sent.splitlines()


def test_the_card_has_what_spaces_asks_for(pusher: Pusher) -> None:
    pusher.push("echo", "--space", "ada/card")
    text = pusher.committed()["README.md"]
    card = yaml.safe_load(text.split("---\n")[1])
    assert {name: card[name] for name in ("title", "emoji", "sdk", "app_port")} == {
        "title": "Echo",
        "emoji": "🔁",
        "sdk": "docker",
        "app_port": 7860,
    }
    assert "open-reward-standard" in card["tags"]
    assert "Say the word in the prompt" in text


def test_a_second_push_updates_and_takes_away_what_is_gone(pusher: Pusher, project: Path) -> None:
    extra = project / "envs" / "echo" / "extra.txt"
    extra.write_text("once")
    first = Pusher(project, pusher.hub)
    first.push("echo", "--space", "ada/again")
    extra.unlink()
    assert "envs/echo/extra.txt" in first.committed()
    second = Pusher(project, pusher.hub)
    done = second.push("echo", "--space", "ada/again")
    assert done.returncode == 0, done.stderr
    assert second.deleted() == {"envs/echo/extra.txt"}


def test_a_private_space_with_a_key(pusher: Pusher) -> None:
    done = pusher.push("echo", "--space", "ada/closed", "--private", "--key-secret", ENV_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    (created,) = pusher.seen("POST", "/api/repos/create")
    assert created["body"][0]["visibility"] == "private"
    (secret,) = pusher.seen("POST", "/secrets")
    assert secret["body"] == [{"key": "ENV_API_KEY", "value": KEY}]
    order = [one["path"].rpartition("/")[2] for one in pusher.seen("POST")]
    assert order.index("secrets") < order.index("main")
    assert KEY not in "".join(pusher.committed().values())
    (visit,) = pusher.seen("GET", "/running/ada/closed/health")
    assert visit["authorization"] == f"Bearer {TOKEN}"
    assert 'api_key=os.environ["ENV_API_KEY"], hf_token=os.environ["HF_TOKEN"])' in done.stdout


def test_a_public_space_becomes_private_when_asked(pusher: Pusher) -> None:
    pusher.push("echo", "--space", "ada/turns")
    assert not pusher.seen("PUT", "/settings")
    done = pusher.push("echo", "--space", "ada/turns", "--private")
    assert done.returncode == 0, done.stderr
    (settings,) = pusher.seen("PUT", "/settings")
    assert settings["body"] == [{"visibility": "private"}]


def test_what_an_earlier_push_made_of_a_space_holds_for_the_next_one_too(pusher: Pusher) -> None:
    first = pusher.push("echo", "--space", "ada/kept", "--private", "--key-secret", ENV_API_KEY=KEY)
    assert first.returncode == 0, first.stderr
    second = Pusher(pusher.project, pusher.hub)
    done = second.push("echo", "--space", "ada/kept", "--wait", "5")
    assert done.returncode == 0, done.stderr
    assert not second.seen("PUT", "/settings") + second.seen("POST", "/secrets")
    assert done.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]


def test_what_is_no_environments_space_is_left_as_it_is(pusher: Pusher) -> None:
    done = pusher.push("echo", "--space", "ada/chatbot", "--private", "--key-secret", ENV_API_KEY=KEY)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "ada/chatbot holds something else (app.py): choose another name, or empty it first" in done.stderr
    assert not [one for one in pusher.seen() if one["method"] in ("PUT", "DELETE") or "/spaces/" in one["path"]][1:]


def test_a_sleeping_space_is_visited_and_a_paused_one_restarted(pusher: Pusher) -> None:
    assert pusher.push("echo", "--space", "ada/asleep").returncode == 0
    assert pusher.seen("GET", "/running/ada/asleep/health")
    assert pusher.push("echo", "--space", "ada/paused").returncode == 0
    assert len(pusher.seen("POST", "/restart")) == 1


def test_a_dry_run_writes_the_folder_and_sends_nothing(pusher: Pusher) -> None:
    done = pusher.push("echo", "--space", "ada/dry", "--dry-run", HF_TOKEN="")
    assert (done.returncode, done.stderr) == (0, "")
    assert not pusher.seen()
    folder = pusher.project / "build" / "space" / "echo"
    shown = {line.strip() for line in done.stdout.splitlines() if line.startswith("  ")}
    assert NEEDED <= shown == {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    (pusher.project / "envs" / "echo" / "notes.txt").rename(pusher.project / "envs" / "echo" / "remarks.txt")
    again = pusher.push("echo", "--space", "ada/dry", "--dry-run")
    (pusher.project / "envs" / "echo" / "remarks.txt").rename(pusher.project / "envs" / "echo" / "notes.txt")
    assert (again.returncode, again.stderr) == (0, "")
    home = folder / "envs" / "echo"
    assert ((home / "notes.txt").exists(), (home / "remarks.txt").exists()) == (False, True)
    (folder / "mine.txt").write_text("keep")
    third = pusher.push("echo", "--space", "ada/dry", "--dry-run")
    assert (third.returncode, "holds something else (mine.txt); remove it first" in third.stderr) == (1, True)
    assert (folder / "mine.txt").read_text() == "keep"


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        (["echo", "--space", "ada/x"], {"HF_TOKEN": ""}, "no token for the Hub: run `hf auth login`"),
        (["echo", "--space", "ada/x"], {"HF_TOKEN": "hf_wrong"}, "the Hub does not know the token"),
        (["echo", "--space", "strangers/x"], {}, "the token may not write to Spaces of strangers"),
        (["echo", "--space", "teapots/x"], {}, "the Hub answered 418: no tea for Bearer ***"),
        (["echo", "--space", "ada/x"], {"HF_ENDPOINT": "http://127.0.0.1:1"}, "http://127.0.0.1:1 cannot be reached"),
        (["echo", "--space", "ada/x", "--key-secret"], {}, "the key from ENV_API_KEY, which is not set"),
        (["echo", "--space", "ada/x", "--key-secret"], {"ENV_API_KEY": f"{KEY},"}, "ENV_API_KEY: one of the keys is"),
        (["echo", "--space", "ada/--"], {}, "Repo id must"),
        (["nothing", "--space", "ada/x"], {}, "no environment 'nothing'; there are: "),
        (["echo", "--space", "ada/sick", "--wait", "0.3"], {}, "did not answer 200 within 0.3 s, the last answer: 503"),
    ],
)
def test_what_went_wrong_is_said_in_one_line(
    pusher: Pusher, arguments: list[str], env: dict[str, str], message: str
) -> None:
    done = pusher.push(*arguments, **env)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("ors-env: ")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("name", "stage", "log"), [("broken", "BUILD_ERROR", "build"), ("crashing", "RUNTIME_ERROR", "run")]
)
def test_a_space_that_does_not_run_shows_the_end_of_its_log(pusher: Pusher, name: str, stage: str, log: str) -> None:
    done = pusher.push("echo", "--space", f"ada/{name}")
    assert done.returncode == 1
    told = done.stderr.splitlines()
    assert told[0] == f"ors-env: ada/{name} does not run: {stage}; see {pusher.hub}/spaces/ada/{name}"
    assert (told[1], told[-1], len(told)) == (f"  {log} line 10 ", f"  {log} line 29 ***", 21)


@pytest.mark.parametrize("name", ["replaced", "mended", "mended-untold", "steady-untold"])
def test_it_is_done_when_what_was_pushed_runs(pusher: Pusher, name: str) -> None:
    done = pusher.push("echo", "--space", f"ada/{name}", "--wait", "6")
    assert done.returncode == 0, done.stderr
    # Every stage was seen but those that only time tells apart.
    asked = len(pusher.seen("GET", "/runtime"))
    assert asked >= 2 if name == "steady-untold" else asked == len(STAGES[name])


def test_a_hub_that_cannot_say_for_a_moment_is_asked_again(pusher: Pusher) -> None:
    done = pusher.push("echo", "--space", "ada/bumpy", "--wait", "20")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(pusher.seen("GET", "/runtime")) == 4


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fails", "ada/fails does not run: BUILD_ERROR"),
        ("fails-untold", "ada/fails-untold does not run: BUILD_ERROR"),
        ("stays-old", "ada/stays-old still runs an earlier build after 1 s"),
    ],
)
def test_an_earlier_build_that_runs_is_no_success(pusher: Pusher, name: str, told: str) -> None:
    done = pusher.push("echo", "--space", f"ada/{name}", "--wait", "1" if name == "stays-old" else "6")
    assert (done.returncode, done.stderr.startswith(f"ors-env: {told}")) == (1, True), done.stderr
    assert "OpenRewardSpec" not in done.stdout


def test_of_several_keys_a_client_is_told_to_send_one(pusher: Pusher) -> None:
    done = pusher.push("echo", "--space", "ada/keys", "--key-secret", ENV_API_KEY=f"{KEY} , second")
    assert done.returncode == 0, done.stderr
    (secret,) = pusher.seen("POST", "/secrets")
    assert secret["body"] == [{"key": "ENV_API_KEY", "value": f"{KEY},second"}]
    assert 'api_key=os.environ["ENV_API_KEY"].split(",")[0].strip())' in done.stdout


def test_a_space_is_named_by_owner_and_name(pusher: Pusher) -> None:
    done = pusher.push("echo", "--space", "echo")
    assert (done.returncode, "'echo' is not OWNER/NAME" in done.stderr) == (2, True)


def test_an_installed_package_has_no_recipe(pusher: Pusher, tmp_path: Path) -> None:
    elsewhere = Pusher(Checkout(tmp_path).path, pusher.hub)
    done = elsewhere.push("echo", "--space", "ada/x", "--dry-run")
    assert (done.returncode, "has no Dockerfile.env: a Space is made from a checkout" in done.stderr) == (1, True)
