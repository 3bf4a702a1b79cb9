"""The starter model as a folder: TRL can use it, the cache keeps it, the caller does not notice its making."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.lessons import BRIEF, ECHO
from trainer.starter import starter

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def folder(cache: Path) -> Path:
    return starter(ECHO, cache=cache, schedule=BRIEF)


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
    code = "import sys, trainer.starter; print({'torch', 'transformers', 'trl', 'tokenizers'} & set(sys.modules))"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "set()"


def test_building_prints_nothing_and_needs_no_hub(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from tests.trainer.lessons import BRIEF, ECHO
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


def _times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
