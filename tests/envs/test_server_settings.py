"""The variables of a server."""

from __future__ import annotations

import re

import pytest

from envs.server import Settings, SettingsError
from envs.server.settings import VARIABLES
from tests.servers import ROOT


def test_nothing_set_gives_the_defaults() -> None:
    assert Settings.from_environ({}) == Settings()
    assert Settings.from_environ({"ENV_MAX_SESSIONS": "", "ENV_API_KEY": " "}) == Settings()


def test_every_variable_sets_its_field() -> None:
    settings = Settings.from_environ(
        {
            "ENV_API_KEY": "first, second",
            "ENV_MAX_SESSIONS": "7",
            "ENV_MAX_CALLS": "8",
            "ENV_MAX_BODY_BYTES": "9",
            "ENV_MAX_HEADER_BYTES": "10",
            "ENV_CALL_SECONDS": "1.5",
            "ENV_IDLE_SECONDS": "2.5",
            "ENV_REQUEST_SECONDS": "3.5",
            "ENV_DRAIN_SECONDS": "4.5",
            "ENV_THREADS": "5",
            "ENV_SHOW_ERRORS": "no",
            "ENV_READY_CREATE": "0",
            "ENV_READY_SECONDS": "6.5",
            "ENV_LOG_LEVEL": "INFO",
        },
        host="0.0.0.0",
        port=80,
    )
    assert settings == Settings(
        host="0.0.0.0",
        port=80,
        api_keys=("first", "second"),
        max_sessions=7,
        max_calls=8,
        max_body_bytes=9,
        max_header_bytes=10,
        call_seconds=1.5,
        idle_seconds=2.5,
        request_seconds=3.5,
        drain_seconds=4.5,
        threads=5,
        show_errors=False,
        ready_create=False,
        ready_seconds=6.5,
        log_level="info",
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ENV_MAX_SESSIONS", "many"),
        ("ENV_MAX_SESSIONS", "0"),
        ("ENV_MAX_BODY_BYTES", "4e6"),
        ("ENV_CALL_SECONDS", "-1"),
        ("ENV_CALL_SECONDS", "nan"),
        ("ENV_IDLE_SECONDS", "inf"),
        ("ENV_SHOW_ERRORS", "perhaps"),
        ("ENV_LOG_LEVEL", "loud"),
    ],
)
def test_a_bad_value_is_told_in_one_line_that_names_the_variable(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as told:
        Settings.from_environ({variable: value})
    assert str(told.value).startswith(f"{variable}: {value!r} ")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("value", ["wonderland,", ",", "wonderland,,rabbit", "wonder\x00land", "wönderland"])
def test_a_bad_key_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(SettingsError, match="ENV_API_KEY: ") as told:
        Settings.from_environ({"ENV_API_KEY": value})
    assert "land" not in str(told.value)


def test_keys_are_not_shown_with_the_settings() -> None:
    assert "wonderland" not in repr(Settings(api_keys=("wonderland",)))


def test_the_documentation_lists_every_variable_with_its_default() -> None:
    rows = re.findall(r"^\| `(ENV_\w+)` \| ([^|]*) \|", (ROOT / "docs" / "server.md").read_text(), re.MULTILINE)
    defaults = {variable: getattr(Settings(), name) for variable, (name, _) in VARIABLES.items()}
    assert {name: text.strip().strip("`") for name, text in rows} == {
        variable: _shown(default) for variable, default in defaults.items()
    }


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}"
    return str(default) if default else "none"
