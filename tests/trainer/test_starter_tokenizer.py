"""The starter model's tokenizer: targets are spelled, boilerplate is short, nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.lessons import ECHO, ECHO_SHORT
from trainer.starter_tokenizer import build_tokenizer
from trainer.warm_start import Lesson

# A lesson whose wording looks like a target in more than one place.
GUESS = Lesson(
    tool="answer",
    argument="string",
    prompt="Say {target} and nothing more",
    right="yes",
    wrong="no",
    tools=[{"type": "function", "function": {"name": "answer", "parameters": {"type": "object", "properties": {}}}}],
)
TARGETS = ("hello", "world", "kistcle", "beakind", "tilci", "match", "text", "name", "string", "to", "win")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer(ECHO)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lesson", [ECHO, ECHO_SHORT], ids=["verbatim schema", "short schema"])
def test_a_target_is_one_token_a_letter(lesson: Lesson, target: str) -> None:
    tokens = build_tokenizer(lesson).tokenize(f"Echo '{target}' to win.")
    assert tokens == ["EchoĠ'", *target, "'ĠtoĠwin."]


def test_a_target_between_spaces_is_one_token_a_letter() -> None:
    tokens = build_tokenizer(GUESS).tokenize("Say nothings and nothing more")
    assert "".join(tokens) == "SayĠnothingsĠandĠnothingĠmore"
    assert tokens[-1 - len("nothings") : -1] == list("nothings")


def test_a_target_is_spelled_the_same_in_the_prompt_and_in_the_call(tokenizer: Any) -> None:
    ids = tokenizer.apply_chat_template(ECHO.chat("kistcle", "kistcle"), tools=ECHO.tools, return_dict=False)
    tokens = tokenizer.convert_ids_to_tokens(ids)
    spelled = [start for start in range(len(tokens)) if tokens[start : start + 7] == list("kistcle")]
    assert len(spelled) == 2


@settings(max_examples=200, deadline=None)
@given(text=st.text())
def test_any_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.parametrize("lesson", [ECHO, ECHO_SHORT], ids=["verbatim schema", "short schema"])
def test_a_prompt_is_a_few_dozen_tokens(lesson: Lesson) -> None:
    prompt = build_tokenizer(lesson).apply_chat_template(
        lesson.chat("kistcle", "kistcle")[:1], tools=lesson.tools, add_generation_prompt=True, return_dict=False
    )
    assert len(prompt) < 64


def test_a_lesson_too_long_for_the_model_is_refused() -> None:
    with pytest.raises(ValueError, match="room for 512"):
        build_tokenizer(replace(ECHO, right="x" * 20_000))
