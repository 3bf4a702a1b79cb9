"""How long an environment is waited for: to the deadline, in however many attempts."""

from __future__ import annotations

import asyncio

import pytest

from trainer.ors import patience
from trainer.ors.errors import ConfigurationError, EnvironmentFailure
from trainer.ors.patience import Health, patiently, starting_ride_out


def test_thousands_of_attempts_are_as_good_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BACKOFF", (1e-9, 1e-9))
    attempts = 0

    async def ask(deadline: float) -> int:
        nonlocal attempts
        attempts += 1
        if attempts < 1100:
            raise EnvironmentFailure("unreachable", "it is not there", reached=False)
        return attempts

    assert asyncio.run(patiently(ask, Health(), 600.0)) == 1100


@pytest.mark.parametrize("told", ["10m", "nan", "-1"])
def test_a_ride_out_that_is_no_number_of_seconds_is_named(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("OPENREWARD_STARTING_RIDE_OUT_S", told)
    with pytest.raises(ConfigurationError, match=r"^OPENREWARD_STARTING_RIDE_OUT_S is a number of seconds, not "):
        starting_ride_out()


def test_a_ride_out_is_the_users_or_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREWARD_STARTING_RIDE_OUT_S", "")
    assert starting_ride_out() == 600.0
    monkeypatch.delenv("OPENREWARD_STARTING_RIDE_OUT_S")
    assert starting_ride_out() == 600.0
    monkeypatch.setenv("OPENREWARD_STARTING_RIDE_OUT_S", "2.5")
    assert starting_ride_out() == 2.5
