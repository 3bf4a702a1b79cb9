"""The trainer's image: confined like the environments', and able to reach them both by URL and in the seed's way."""

from __future__ import annotations

import json

import pytest

from tests.stack import confinement
from tests.stack.stack import Stack

pytestmark = pytest.mark.usefixtures("images")

PLAY = """
import sys
from trainer import OpenRewardSpec

def play(target):
    spec = OpenRewardSpec(target, num_tasks=2)
    row = spec.train_dataset[1]
    rollout = spec.environment_factory()
    rollout.reset(**row)
    if spec.name == "sql":
        return rollout.query(sql="SELECT 1").splitlines()[-1]
    rollout.echo(text=row["target"])
    return spec.reward_funcs(environments=[rollout])

print([play(target) for target in sys.argv[1:]])
"""
PROXY = "http://proxy.invalid:3128"


def python(stack: Stack, code: str, *arguments: str, **variables: str) -> str:
    """Run Python in a fresh container of the trainer's service and return the last line it printed."""
    given = [option for name, value in variables.items() for option in ("--env", f"{name}={value}")]
    run = ["run", "--rm", "--no-deps", "--no-TTY", *given, "--entrypoint", "python", "trainer", "-c", code, *arguments]
    return stack.compose(*run, seconds=120).stdout.splitlines()[-1]


def test_the_trainer_is_an_ordinary_user_without_capabilities(environments: Stack) -> None:
    assert json.loads(python(environments, confinement.SCRIPT)) == {
        **confinement.CONFINED,
        "writable": ["/app/runs", "/home/user/.cache", "/tmp"],
    }


def test_each_environment_is_reached_at_its_own_url_past_a_proxy_for_the_outside(environments: Stack) -> None:
    proxies = {"HTTP_PROXY": PROXY, "http_proxy": PROXY}
    assert python(environments, PLAY, "http://echo:8000", "http://sql:8000", **proxies) == "[[1.0], '(1 row)']"


def test_the_two_variables_of_the_platform_make_one_server_reachable_by_url_and_name(environments: Stack) -> None:
    one = {"OPENREWARD_API_URL": "http://echo:8000", "OPENREWARD_SESSION_URL": "http://echo:8000"}
    assert python(environments, PLAY, "http://echo:8000", "echo", OPENREWARD_API_KEY="any", **one) == "[[1.0], [1.0]]"


def test_neither_image_holds_what_the_shell_keeps_secret(environments: Stack) -> None:
    told = python(environments, "import os; print([name for name in os.environ if 'KEY' in name or 'TOKEN' in name])")
    assert told == "[]"
