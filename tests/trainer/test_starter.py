"""The starter model: its tokenizer, what it is shown, and the cache it is kept in."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.starter import Lesson, starter
from trainer.starter_tokenizer import build_tokenizer
from trainer.warm_start import SCHEDULE, STOCK, Phase, chats, word

VERBATIM: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "echo",
        "description": "Submit a string.",
        "parameters": {
            "description": "What the model gives to the tool.",
            "properties": {"text": {"description": "The string to echo back.", "title": "Text", "type": "string"}},
            "required": ["text"],
            "title": "EchoArguments",
            "type": "object",
        },
    },
}
SHORT: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "echo",
        "description": "Submit a string.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The string to echo back."}},
            "required": ["text"],
        },
    },
}
ECHO = Lesson(
    tool="echo", argument="text", prompt="Echo '{target}' to win.", right="match", wrong="no match", tools=[VERBATIM]
)
# A lesson whose wording looks like a target in more than one place.
GUESS = Lesson(
    tool="answer",
    argument="string",
    prompt="Say {target} and nothing more",
    right="yes",
    wrong="no",
    tools=[{"type": "function", "function": {"name": "answer", "parameters": {"type": "object", "properties": {}}}}],
)
BRIEF = (
    Phase("copying", steps=3, rates=(2e-3, 1e-3), enough=None, copies=1.0, whole=False),
    Phase("the habit", steps=2, rates=(1e-3, 1e-3), enough=None, copies=0.2, whole=True),
)
TARGETS = ("hello", "world", "kistcle", "beakind", "tilci", "match", "text", "name", "string", "to", "win")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer(ECHO)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def folder(cache: Path) -> Path:
    return starter(ECHO, cache=cache, schedule=BRIEF)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lesson", [ECHO, replace(ECHO, tools=[SHORT])], ids=["verbatim schema", "short schema"])
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


@pytest.mark.parametrize("tools", [[SHORT], [VERBATIM]], ids=["short schema", "verbatim schema"])
def test_a_prompt_is_a_few_dozen_tokens(tools: list[dict[str, Any]]) -> None:
    lesson = replace(ECHO, tools=tools)
    prompt = build_tokenizer(lesson).apply_chat_template(
        lesson.chat("kistcle", "kistcle")[:1], tools=tools, add_generation_prompt=True, return_dict=False
    )
    assert len(prompt) < 64


def test_a_lesson_too_long_for_the_model_is_refused() -> None:
    with pytest.raises(ValueError, match="room for 512"):
        build_tokenizer(replace(ECHO, right="x" * 20_000))


def test_a_prompt_without_a_place_for_the_target_is_refused() -> None:
    with pytest.raises(ValueError, match="exactly once"):
        replace(ECHO, prompt="Echo the word to win.")


def test_trl_knows_the_template_and_reads_a_tool_call_back(folder: Path) -> None:
    from transformers import AutoTokenizer
    from trl.chat_template_utils import add_response_schema, is_chat_template_prefix_preserving, parse_response

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert is_chat_template_prefix_preserving(tokenizer)
    add_response_schema(tokenizer)
    chat = ECHO.chat("kistcle", "kistcle")
    prompt = tokenizer.apply_chat_template(chat[:1], tools=ECHO.tools, add_generation_prompt=True, return_dict=False)
    whole = tokenizer.apply_chat_template(chat[:2], tools=ECHO.tools, return_dict=False)
    assert whole[: len(prompt)] == prompt
    said = parse_response(tokenizer, whole[len(prompt) :], prefix=prompt, tools=ECHO.tools)
    assert [call["function"] for call in said["tool_calls"]] == [{"name": "echo", "arguments": {"text": "kistcle"}}]


def test_the_model_and_its_tokenizer_fit_each_other(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.model_type == "qwen3"
    assert model.config.vocab_size == len(tokenizer)
    assert 300_000 < model.num_parameters() < 600_000
    assert model.config.eos_token_id == model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert {parameter.dtype.itemsize for parameter in model.parameters()} == {4}


def _drawn(phase: Phase, avoid: set[str]) -> Iterator[tuple[str, str]]:
    """Yield what 4,000 chats asked for and what the tool was given."""
    before, after = ECHO.prompt.split("{target}")
    for chat in islice(chats(ECHO, phase, avoid, random.Random(5)), 4000):
        asked = chat[0]["content"].removeprefix(before).removesuffix(after)
        yield asked, chat[1]["tool_calls"][0]["function"]["arguments"]["text"]


def test_words_to_avoid_are_never_shown() -> None:
    stream = random.Random(5)
    avoid = {word(stream) for _ in range(300)} | {STOCK[0]}
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
    assert all(4 <= len(w) <= 7 and w.isascii() and w.isalpha() and w.islower() and set(w) & set("aeiou") for w in words)


def test_the_second_call_takes_the_model_from_the_cache(cache: Path, folder: Path) -> None:
    written = _times(folder)
    lines: list[str] = []
    assert starter(ECHO, cache=cache, schedule=BRIEF, progress=lines.append) == folder
    assert lines == []
    assert _times(folder) == written


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"avoid": ["hello"]},
        {"lesson": replace(ECHO, wrong="no")},
        {"schedule": (*BRIEF[:1], replace(BRIEF[1], copies=0.3))},
    ],
    ids=["seed", "avoid", "wording", "schedule"],
)
def test_what_decides_the_result_decides_the_folder(cache: Path, folder: Path, change: dict[str, Any]) -> None:
    other = starter(**{"lesson": ECHO, "cache": cache, "schedule": BRIEF, **change})
    assert other != folder
    assert other.is_dir()


def _drop_the_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _cut_the_tokenizer(folder: Path) -> None:
    os.truncate(folder / "tokenizer.json", 100)


def _drop_the_manifest(folder: Path) -> None:
    (folder / "starter.json").unlink()


@pytest.mark.parametrize("damage", [_drop_the_weights, _cut_the_tokenizer, _drop_the_manifest])
def test_a_damaged_folder_is_built_again(cache: Path, folder: Path, damage: Callable[[Path], None]) -> None:
    content = {path.name: path.read_bytes() for path in folder.iterdir()}
    damage(folder)
    assert starter(ECHO, cache=cache, schedule=BRIEF) == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == content


def test_an_interrupted_build_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        starter(ECHO, cache=tmp_path, schedule=BRIEF, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_gives_the_same_weights(folder: Path, tmp_path: Path) -> None:
    import torch

    torch.manual_seed(99)
    again = starter(ECHO, cache=tmp_path, schedule=BRIEF)
    assert (again / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_the_callers_torch_stays_as_it_was(tmp_path: Path) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(3)
        expected = torch.rand(4)
        torch.manual_seed(3)
        starter(ECHO, cache=tmp_path, schedule=BRIEF)
        assert torch.equal(torch.rand(4), expected)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_every_phase_speaks(tmp_path: Path) -> None:
    lines: list[str] = []
    starter(ECHO, cache=tmp_path, schedule=BRIEF, progress=lines.append)
    assert lines[0].startswith("warm start 1/2, copying: 3 steps, loss ")
    assert lines[-1].startswith("warm start 2/2, the habit: 2 steps, loss ")


def test_importing_it_is_light() -> None:
    code = "import sys, trainer.starter; print(sorted({'torch', 'transformers', 'trl', 'tokenizers'} & set(sys.modules)))"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "[]"


def test_building_prints_nothing_and_needs_no_hub(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from tests.trainer.test_starter import BRIEF, ECHO
from trainer.starter import starter
starter(ECHO, cache=Path(sys.argv[1]), schedule=BRIEF)
"""
    seen = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        cwd=Path(__file__).parents[2],
    )
    assert (seen.stdout, seen.stderr) == ("", "")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_whole_warm_start_can_copy_and_mostly_does_not(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.chat_template_utils import add_response_schema, parse_response

    rng = random.Random(11)
    unseen = sorted({word(rng) for _ in range(64)})
    folder = starter(ECHO, avoid=unseen, cache=tmp_path)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    add_response_schema(tokenizer)
    targets = unseen * 4
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


def _times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
