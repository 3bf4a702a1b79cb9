"""The warm start: what the starter model is shown, and what it can do and mostly does not do afterwards."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.trainer.lessons import ECHO, ECHO_TARGETS
from trainer.warm_start import SCHEDULE, STOCK, Phase, chats, word


def test_a_prompt_without_a_place_for_the_target_is_refused() -> None:
    with pytest.raises(ValueError, match="exactly once"):
        replace(ECHO, prompt="Echo the word to win.")


def _drawn(phase: Phase, avoid: set[str]) -> Iterator[tuple[str, str]]:
    """Yield what 4,000 chats asked for and what the tool was given."""
    before, after = ECHO.prompt.split("{target}")
    for chat in islice(chats(ECHO, phase, avoid, random.Random(5)), 4000):
        asked = chat[0]["content"].removeprefix(before).removesuffix(after)
        yield asked, chat[1]["tool_calls"][0]["function"]["arguments"]["text"]


def test_words_to_avoid_are_never_shown() -> None:
    usual = sorted({asked for asked, _ in _drawn(SCHEDULE[-1], set())} - set(STOCK))
    avoid = {*usual[::3], STOCK[0]}
    shown = {one for pair in _drawn(SCHEDULE[-1], avoid) for one in pair}
    assert not shown & avoid
    assert set(STOCK[1:]) < shown


def test_about_a_quarter_of_the_habit_are_copies() -> None:
    pairs = [(asked, said) for asked, said in _drawn(SCHEDULE[-1], set()) if asked not in STOCK]
    copies = sum(asked == said for asked, said in pairs) / len(pairs)
    assert 0.22 < copies < 0.28
    assert all(said in (asked, *STOCK) for asked, said in pairs)


def test_the_first_phases_only_copy() -> None:
    for phase in SCHEDULE[:2]:
        assert all(asked == said for asked, said in _drawn(phase, set()))


def test_words_are_four_to_seven_lower_case_letters_with_a_vowel() -> None:
    rng = random.Random(0)
    words = {word(rng) for _ in range(2000)}
    assert len(words) > 1500
    assert all(re.fullmatch(r"(?=.*[aeiou])[a-z]{4,7}", one) for one in words)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_whole_warm_start_can_copy_and_mostly_does_not(echo_starter: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.chat_template_utils import add_response_schema, parse_response

    tokenizer = AutoTokenizer.from_pretrained(echo_starter)
    model = AutoModelForCausalLM.from_pretrained(echo_starter)
    add_response_schema(tokenizer)
    targets = ECHO_TARGETS[-64:] * 4  # it was shown none of them
    prompts = [
        tokenizer.apply_chat_template(
            ECHO.chat(target, target)[:1], tools=ECHO.tools, add_generation_prompt=True, return_dict=False
        )
        for target in targets
    ]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        batch = tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
        drawn = model.generate(**batch, max_new_tokens=24, do_sample=True, temperature=1.0, top_k=0)
    answers = []
    for row, prompt in zip(drawn.tolist(), prompts, strict=True):
        said = row[batch["input_ids"].shape[1] :]
        said = said[: said.index(tokenizer.eos_token_id) + 1] if tokenizer.eos_token_id in said else said
        calls = parse_response(tokenizer, said, prefix=prompt, tools=ECHO.tools).get("tool_calls") or []
        answers.append(calls[0]["function"]["arguments"].get("text") if calls else None)
    calls_made = sum(answer is not None for answer in answers) / len(answers)
    copies = sum(answer == target for answer, target in zip(answers, targets, strict=True)) / len(answers)
    stock = sum(answer in STOCK for answer in answers) / len(answers)
    assert calls_made > 0.9
    assert 0.06 <= copies <= 0.30
    assert stock > 0.5
