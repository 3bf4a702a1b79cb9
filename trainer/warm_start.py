"""The supervised half of the starter model: what it is shown before any reward exists.

Copying a word it never saw is beyond what a few dozen steps of reinforcement learning can invent, so it is taught here,
together with the form of a tool call. Then a stock answer is made the habit, which leaves copying to be preferred by
whoever gives rewards for it. The order matters: shown copies and stock answers mixed from the start, the model learns
the stock answers and never the copying.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

TARGET = "{target}"
STOCK = ("coffee", "garden", "yellow")
RIGHT_END, WRONG_END = "Done.", "Not this time."

BATCH = 32
_FAMILIAR = 0.1  # share of the targets that are stock answers
_RECENT = 10  # steps that a phase's loss is averaged over
_RAMP = 20  # steps from nothing to a phase's first learning rate
_SPEAK = 5.0  # seconds between two progress lines of one phase

_ONSETS = (*"bcdfghjklmnprstvwxyz", "bl", "br", "cl", "cr", "dr", "fl", "gl", "gr", "pl", "pr", "sl", "sp", "st", "tr")
_VOWELS = (*"aeiou" * 2, "ai", "ea", "ie", "oa", "oo", "ou")
_CODAS = (*("",) * 12, *"dlmnprst", "ld", "lk", "nd", "nt", "rk", "rn", "st")

Message = dict[str, Any]


@dataclass(frozen=True)
class Lesson:
    """The wording of one environment with one tool of one text argument, as the starter must learn it.

    Args:
        tool: The tool's name as the model sees it.
        argument: The name of its text argument.
        prompt: The prompt, with `{target}` where the word to copy stands.
        right: What the tool answers to the target.
        wrong: What it answers to anything else.
        tools: The tool schemas exactly as the trainer renders them into the prompt.

    Raises:
        ValueError: The prompt does not say where the target stands.
    """

    tool: str
    argument: str
    prompt: str
    right: str
    wrong: str
    tools: list[dict[str, Any]]

    def __post_init__(self) -> None:
        if self.prompt.count(TARGET) != 1:
            raise ValueError(f"the prompt of a lesson must hold {TARGET} exactly once, this one is: {self.prompt!r}")

    def chat(self, target: str, said: str) -> list[Message]:
        """Return the whole conversation in which `said` is given to the tool for `target`."""
        call = {"type": "function", "function": {"name": self.tool, "arguments": {self.argument: said}}}
        result, end = (self.right, RIGHT_END) if said == target else (self.wrong, WRONG_END)
        return [
            {"role": "user", "content": self.prompt.replace(TARGET, target)},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "name": self.tool, "content": result},
            {"role": "assistant", "content": end},
        ]


@dataclass(frozen=True)
class Phase:
    """One stretch of the warm start.

    Args:
        name: What it is called in progress lines.
        steps: How many optimizer steps it may take.
        rates: The learning rate at its start and, along a cosine, at its end.
        enough: The mean loss of the last ten steps that ends it early, if any.
        copies: The share of chats that give the target to the tool, 0 to 1; the others give a stock answer.
        whole: Whether the chats come with the tool schemas and go on to the end, or are the prompt and the call alone.
    """

    name: str
    steps: int
    rates: tuple[float, float]
    enough: float | None
    copies: float
    whole: bool


SCHEDULE: tuple[Phase, ...] = (
    Phase("copying", steps=600, rates=(2e-3, 3e-4), enough=0.003, copies=1.0, whole=False),
    Phase("the real prompt", steps=150, rates=(1e-3, 3e-4), enough=0.005, copies=1.0, whole=True),
    Phase("the habit", steps=80, rates=(5e-4, 2e-4), enough=None, copies=0.25, whole=True),
)


def word(rng: random.Random) -> str:
    """Return a pronounceable nonsense word of four to seven lower-case letters."""
    while True:
        syllables = (rng.choice(part) for _ in range(rng.choice((2, 2, 3))) for part in (_ONSETS, _VOWELS, _CODAS))
        made = "".join(syllables)
        if 4 <= len(made) <= 7:
            return made


def chats(lesson: Lesson, phase: Phase, avoid: Collection[str], rng: random.Random) -> Iterator[list[Message]]:
    """Yield the chats of one phase without end; no word in `avoid` stands in any of them as a target or an answer."""
    avoid = frozenset(avoid)
    stock = [answer for answer in STOCK if answer not in avoid]
    while True:
        # Stock answers are targets too now and then: tokens first met in the habit phase would come out of it as noise.
        target = rng.choice(stock) if stock and rng.random() < _FAMILIAR else word(rng)
        if target in avoid:
            continue
        said = target if rng.random() < phase.copies or not stock else rng.choice(stock)
        chat = lesson.chat(target, said)
        yield chat if phase.whole else chat[:2]


def warm_start(
    model: Any,
    tokenizer: Any,
    lesson: Lesson,
    *,
    seed: int,
    avoid: Collection[str],
    schedule: Sequence[Phase],
    progress: Callable[[str], None],
) -> None:
    """Teach `model` the lesson, in place, on one torch thread: two are slower at this size.

    Args:
        model: A causal language model in float32 on the CPU.
        tokenizer: Its tokenizer, with TRL's `qwen3_instruct_2507` chat template.
        lesson: What to teach.
        seed: Decides the chats.
        avoid: Words that must not be shown.
        schedule: The phases, in order.
        progress: Called with a line for people every few seconds and at the end of each phase.
    """
    import torch

    rng, began = random.Random(seed), time.monotonic()
    optimizer = torch.optim.AdamW(model.parameters(), lr=schedule[0].rates[0], betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    with _one_thread(), torch.enable_grad():
        for number, phase in enumerate(schedule, start=1):
            title = f"warm start {number}/{len(schedule)}, {phase.name}"
            stream, recent, spoke = chats(lesson, phase, avoid, rng), [math.inf] * _RECENT, time.monotonic()
            for step in range(1, phase.steps + 1):
                for group in optimizer.param_groups:
                    group["lr"] = _rate(phase, step)
                loss = model(**_batch(tokenizer, stream, lesson.tools if phase.whole else None)).loss
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                recent = [*recent[1:], loss.item()]
                now, mean = time.monotonic(), sum(recent) / _RECENT
                done = step == phase.steps or (phase.enough is not None and mean < phase.enough)
                if done or now - spoke >= _SPEAK:
                    steps = f"{step} steps" if done else f"step {step} of at most {phase.steps}"
                    progress(f"{title}: {steps}, loss {recent[-1]:.3f}, {now - began:.0f} s")
                    spoke = now
                if done:
                    break
    model.eval()


def _rate(phase: Phase, step: int) -> float:
    first, last = phase.rates
    cosine = 0.5 * (1 + math.cos(math.pi * (step - 1) / phase.steps))
    return (last + (first - last) * cosine) * min(1.0, step / _RAMP)


def _batch(tokenizer: Any, stream: Iterator[list[Message]], tools: list[dict[str, Any]] | None) -> dict[str, Any]:
    import torch
    from trl.chat_template_utils import qwen3_instruct_2507_training_chat_template

    rendered = tokenizer.apply_chat_template(
        [next(stream) for _ in range(BATCH)],
        tools=tools,
        chat_template=qwen3_instruct_2507_training_chat_template,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    longest = max(map(len, rendered["input_ids"]))
    # Padded on the right and without an attention mask: attention is causal, so nothing that is learned from sees it.
    ids = torch.full((BATCH, longest), tokenizer.pad_token_id)
    labels = torch.full((BATCH, longest), -100)
    for row, (tokens, own) in enumerate(zip(rendered["input_ids"], rendered["assistant_masks"], strict=True)):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        labels[row, : len(tokens)] = torch.tensor([t if o else -100 for t, o in zip(tokens, own, strict=True)])
    return {"input_ids": ids, "labels": labels}


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
