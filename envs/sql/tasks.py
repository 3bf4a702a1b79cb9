"""Which question stands behind a task number, and which numbers make up a split.

A task is a place in a fixed layout: split, domain, level, and a rank within them. The questions of a domain and level
are listed in a shuffled order that is the same everywhere; training takes the first ranks, validation and test the
next. So a task is found without building any other, and no question stands in two splits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, zip_longest

from envs.sql.domains import DOMAINS, SEEN, UNSEEN
from envs.sql.questions import SHAPES, Question
from envs.sql.schema import Domain

SEED = "sql-1"
SPLITS = {"train": 4000, "validation": 200, "test": 500}
LEVELS = tuple(SHAPES)
TOTAL = sum(SPLITS.values())

_TRAIN_RANKS = range(0, 100)
_VALIDATION_RANKS = range(100, 105)
_TEST_RANKS = range(105, 111)
_UNSEEN_RANKS = range(0, 26)


@dataclass(frozen=True)
class Task:
    """One question in one wording."""

    number: int
    domain: Domain
    level: int
    question: Question
    wording: str


def number_of(split: str, index: int) -> int:
    """Return the number of a split's task; a negative index counts from the end.

    Raises:
        KeyError: there is no such split.
        IndexError: the split has no such task.
    """
    size = SPLITS[split]
    if not -size <= index < size:
        raise IndexError(f"{split} has {size} tasks, asked for number {index}")
    names = list(SPLITS)
    return sum(SPLITS[name] for name in names[: names.index(split)]) + index % size


@cache
def task(number: int) -> Task:
    """Return a task by number.

    Raises:
        IndexError: the number is not in 0 to TOTAL - 1.
    """
    if not 0 <= number < TOTAL:
        raise IndexError(f"task {number} is not in 0 to {TOTAL - 1}")
    group, place = divmod(number, len(LEVELS))
    domain, rank = _groups()[group]
    level = LEVELS[place]
    question = _questions(domain, level)[rank]
    wording = random.Random(f"{SEED}/{number}").choice(question.wordings())
    return Task(number, DOMAINS[domain], level, question, wording)


@cache
def _groups() -> list[tuple[str, int]]:
    """Return (domain, rank) of every group of tasks, one task a level, in the order of the task numbers."""
    train = [(domain.name, rank) for rank in _TRAIN_RANKS for domain in SEEN]
    validation = [(domain.name, rank) for rank in _VALIDATION_RANKS for domain in SEEN]
    test = [(domain.name, rank) for domain in SEEN for rank in _TEST_RANKS]
    test += [(domain.name, rank) for domain in UNSEEN for rank in _UNSEEN_RANKS]
    random.Random(SEED).shuffle(test)  # so that the first tasks of the split ask about all domains
    return train + validation + test


@cache
def _questions(domain: str, level: int) -> tuple[Question, ...]:
    """Return the questions of a domain and level that tasks use, in order of rank; the shapes take turns."""
    by_shape = [list(shape.every(DOMAINS[domain])) for shape in SHAPES[level]]
    for place, questions in enumerate(by_shape):
        random.Random(f"{SEED}/{domain}/{level}/{place}").shuffle(questions)
    turns = chain.from_iterable(zip_longest(*by_shape))
    return tuple(islice((question for question in turns if question is not None), _TEST_RANKS.stop))
