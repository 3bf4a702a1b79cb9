"""What every kind of question has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Self

from envs.sql.schema import Domain


class Question(ABC):
    """One question about a domain: a shape, which is the subclass, with its blanks filled in.

    A question is a frozen dataclass, so equal blanks make equal questions, and a question with one blank changed is
    another question of the same shape.
    """

    ordered: ClassVar[bool] = False
    """Whether the wording asks for an order of rows, which is then compared."""

    @classmethod
    @abstractmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        """Yield every question of this shape about a domain, each once."""

    @abstractmethod
    def sql(self) -> str:
        """Return the gold query, in SQLite's dialect."""

    @abstractmethod
    def wordings(self) -> tuple[str, ...]:
        """Return ways to ask it in English; each says which columns are shown, in which order."""

    @abstractmethod
    def near_misses(self) -> Iterator[Question]:
        """Yield questions that a careless reader might answer instead; the data are chosen to tell them apart."""
