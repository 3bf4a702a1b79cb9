"""The questions a domain can be asked, by level."""

from collections.abc import Mapping

from envs.sql.questions import level1, level2, level3, level4, level5
from envs.sql.questions.base import Question

SHAPES: Mapping[int, tuple[type[Question], ...]] = {
    1: level1.SHAPES,
    2: level2.SHAPES,
    3: level3.SHAPES,
    4: level4.SHAPES,
    5: level5.SHAPES,
}

__all__ = ["SHAPES", "Question"]
