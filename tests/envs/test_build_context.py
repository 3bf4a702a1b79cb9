"""What a build of an image is given: the code, and nothing that must not leave the machine."""

from __future__ import annotations

from pathlib import Path

from docker.utils.build import exclude_paths

from tests.servers import ROOT

SENT = ("pyproject.toml", "constraints.txt", "envs/own/environment.py", "envs/own/data/words.txt", "trainer/cli.py")
KEPT = (
    *(".env", "runs/a/model", "secrets.txt", "envs/own/.env", "envs/own/.venv/lib/a.py", "envs/own/.git/config"),
    *("envs/own/server.pem", "envs/own/keys/server.key", "envs/own/__pycache__/a.pyc", "trainer/.env.local"),
)


def test_no_secret_of_an_environments_folder_reaches_a_build(tmp_path: Path) -> None:
    for file in (*SENT, *KEPT):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    sent = exclude_paths(str(tmp_path), patterns, dockerfile="Dockerfile.env")
    assert {file for file in sent if (tmp_path / file).is_file()} == set(SENT)
