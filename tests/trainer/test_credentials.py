"""Keys, tokens and secrets of a run: taken from variables, refused as themselves, shown and kept nowhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.trainer.configuring import ONE, entry, entry_refused, refused, written
from trainer.config import load
from trainer.ors.errors import ConfigurationError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.yaml"


@pytest.mark.parametrize("key", ["api_key", "hf_token"])
def test_a_key_is_given_by_variable_alone(file: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    for literal in ("hunter2", "hunter2${A}"):
        said = entry_refused(file, **{key: literal})
        assert said == f"{file}, environments[0]: {key} takes ${{VARIABLE}}, so that the key itself stands in no file"
    monkeypatch.setenv("MY_KEY", "hunter2")
    sent = entry(file, **{key: "${MY_KEY}"}).environments[0].spec()._endpoint
    assert "hunter2" in (sent.api_key or "") + str(sent.headers)


def test_a_credential_in_a_header_or_a_url_is_given_by_variable(file: Path) -> None:
    assert "headers: Authorization takes ${VARIABLE}" in entry_refused(file, headers={"Authorization": "hunter2"})
    assert "headers: X-Api-Key takes" in entry_refused(file, headers={"X-Api-Key": "hunter2"})
    said = refused(*written(file, environments=[{"url": "http://me:hunter2@h"}]))
    assert "the password in the URL takes ${VARIABLE}" in said
    assert "hunter2" not in said
    assert "headers: X-Access takes ${VARIABLE}" in entry_refused(file, headers={"X-Access": "Bearer hunter2"})
    by_variable = {"X-Access": "Bearer ${ACCESS}"}
    assert entry(file, headers=by_variable).environments[0].headers == by_variable


@pytest.mark.parametrize(
    "password", ["s3cret/pass#word", "p@ss", "a?b:c", "100%", "\N{SNOWMAN} \\"], ids=["slash", "at", "query", "%", "\\"]
)
def test_a_password_may_have_any_character(file: Path, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setenv("PASSWORD", password)
    monkeypatch.setenv("AT", "h:1/p")
    spec = load(written(file, environments=[{"url": "http://me:${PASSWORD}@${AT}"}])).environments[0].spec()
    assert spec.address == "http://h:1/p"
    assert unquote(urlsplit(spec._endpoint.target).password or "") == password


def test_a_url_that_a_variable_makes_wrong_is_not_shown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLE", "http://me:hunter2/x@h")
    with pytest.raises(ConfigurationError) as refusal:
        load(written(file, environments=[{"url": "${WHOLE}"}])).environments[0].spec()
    assert (
        str(refusal.value)
        == f"{file}, environments[0]: what the variables make of the url ${{WHOLE}} is no URL of an ORS server"
    )


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("model_init_kwargs", {"token": "hunter2"}, "model_init_kwargs: token takes ${VARIABLE}"),
        ("model_init_kwargs", {"token": "hunter2${A}"}, "model_init_kwargs: token takes ${VARIABLE}"),
        ("model_init_kwargs", '{"token": "hunter2"}', "model_init_kwargs: token takes ${VARIABLE}"),
        ("model_init_kwargs", {"a": [{"apiKey": "hunter2"}]}, "model_init_kwargs: a: apiKey takes ${VARIABLE}"),
        ("model_init_kwargs", {"PASSWORDS": ["hunter2"]}, "model_init_kwargs: PASSWORDS takes ${VARIABLE}"),
        ("generation_kwargs", {"auth": {"user": "hunter2"}}, "generation_kwargs: auth: user cannot be given here"),
        ("chat_template_kwargs", {"x-api-key": "${A}"}, "chat_template_kwargs: x-api-key cannot be given here"),
    ],
)
def test_a_credential_at_any_depth_is_given_by_variable(file: Path, key: str, value: Any, said: str) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    of_file, flag = written(file, url="http://h", **{key: value}), [*ONE, f"--{key}", text]
    for words in (of_file, flag):
        told = refused(*words)
        assert told.startswith(said) and "hunter2" not in told


def test_a_token_for_the_hub_is_refused_as_itself(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_HUB", "hunter2")
    kept = "so that the key itself stands in no file"
    for given in ("hf_hunter2", "hf_hunter2${MY_HUB}"):
        of_file = written(file, url="http://h", hub_token=given)
        in_quotes = (
            f"--hub_token takes the name of a variable, in quotes: '${{HF_TOKEN}}', {kept} and no shell's history"
        )
        for words in ((*of_file, "--hub_token", "${MY_HUB}"), of_file):
            assert refused(*words) == f"hub_token takes ${{VARIABLE}}, {kept}"
        for words in (("--hub_token", given), (f"--hub-token={given}",)):
            assert refused(*ONE, *words) == in_quotes


def test_what_only_sounds_like_a_credential_is_none(file: Path) -> None:
    kwargs = {"pad_token_id": "0", "keywords": "a", "tokenizer": "b", "token": False, "monkey": "c"}
    assert load(written(file, url="http://h", model_init_kwargs=kwargs)).grpo.model_init_kwargs == kwargs


def test_a_token_for_the_hub_is_taken_from_its_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setenv("MY_HUB", "hunter2")
    found = load(written(file, url="http://h", hub_token="${MY_HUB}", model_init_kwargs={"token": "${MY_HUB}"}))
    assert os.environ["HF_TOKEN"] == "hunter2"
    assert found.grpo.model_init_kwargs == {"token": "${MY_HUB}"}


def test_a_variable_that_is_missing_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    monkeypatch.setenv("HOLLOW", "")
    for keys, said in (
        ({"api_key": "${NO_SUCH}"}, "the environment variable NO_SUCH is not set, and api_key is taken from it"),
        ({"api_key": "${HOLLOW}"}, "the environment variable HOLLOW is empty, and api_key is taken from it"),
        ({"headers": {"X-A": "b ${NO_SUCH}"}}, "NO_SUCH is not set, and headers: X-A is taken from it"),
        ({"secrets": {"judge": "NO_SUCH"}}, "NO_SUCH is not set, and secrets: judge is taken from it"),
        ({"secrets": {"judge": {"variable": "NO_SUCH"}}}, "NO_SUCH is not set"),
    ):
        with pytest.raises(ConfigurationError) as refusal:
            entry(file, **keys).environments[0].spec()
        assert said in str(refusal.value)


def test_a_secret_in_the_place_of_its_variable_is_refused_and_not_shown(file: Path) -> None:
    for given in ("sk-hunter2", {"variable": "sk-hunter2"}, ["sk-hunter2"], {"domains": ["sk-hunter2"]}):
        with pytest.raises(ConfigurationError) as refusal:
            entry(file, secrets={"judge": given}).environments[0].spec()
        assert str(refusal.value).endswith(
            ": secrets: judge takes the name of the environment variable that holds the secret"
        )
        assert "hunter2" not in str(refusal.value)


def test_secrets_come_from_variables(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_JUDGE", "hunter2")
    secrets = {"judge": "MY_JUDGE", "other": {"variable": "MY_JUDGE", "domains": ["a.example"]}}
    found = entry(file, secrets=secrets).environments[0].spec()._endpoint.secrets
    assert dict(found) == {"judge": "hunter2", "other": ("hunter2", ("a.example",))}
    with pytest.raises(ConfigurationError, match="domains is a list"):
        entry(file, secrets={"judge": {"variable": "MY_JUDGE", "domains": "a.example"}}).environments[0].spec()


def test_a_token_for_the_hub_is_in_no_arguments_that_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setenv("MY_HUB", "hunter2")
    found = load([*ONE, "--hub_token", "${MY_HUB}"])
    assert os.environ["HF_TOKEN"] == "hunter2"
    found.save(tmp_path / "again.yaml")
    assert found.grpo.hub_token is None
    assert "hunter2" not in (tmp_path / "again.yaml").read_text()
