"""Level 3: join of two tables and more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from envs.sql.questions import aggregates
from envs.sql.questions.aggregates import Function
from envs.sql.questions.base import Question
from envs.sql.questions.filters import Filter, a, category_filters, described, filters, near_misses, where
from envs.sql.schema import Column, Domain, Link


def join(link: Link) -> str:
    """Return "child c JOIN parent p ON …"."""
    return f"{link.child.name} c JOIN {link.parent.name} p ON c.{link.column.name} = p.id"


def links_to_named(domain: Domain) -> Iterator[Link]:
    """Yield the references to tables whose rows have a name."""
    return (link for link in domain.links() if link.parent.title)


@dataclass(frozen=True)
class CountJoined(Question):
    """How many rows fulfil a condition of their own and one of the row they refer to."""

    link: Link
    of_child: tuple[Filter, ...]
    of_parent: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for link in domain.links():
            for of_parent in filters(link.parent):
                yield cls(link, (), (of_parent,))
                yield from (cls(link, (of_child,), (of_parent,)) for of_child in category_filters(link.child))

    def sql(self) -> str:
        conditions = [condition.sql("c.") for condition in self.of_child]
        return f"SELECT COUNT(*) FROM {join(self.link)}{where(self.of_parent, 'p.', conditions)}"

    def wordings(self) -> tuple[str, ...]:
        children = described(self.link.child.plural, self.of_child)
        parent = a(described(self.link.column.label, self.of_parent))
        return (f"How many {children} have {parent}?", f"Count the {children} that belong to {parent}.")

    def near_misses(self) -> Iterator[Question]:
        yield from (replace(self, of_child=conditions) for conditions in near_misses(self.of_child))
        yield from (replace(self, of_parent=conditions) for conditions in near_misses(self.of_parent))


@dataclass(frozen=True)
class AggregateByParent(Question):
    """An aggregate of the rows that refer to each named row."""

    link: Link
    number: Column
    function: Function
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for link in links_to_named(domain):
            for number in aggregates.numbers(link.child, nulls=False):
                for function in aggregates.functions(link.child):
                    yield cls(link, number, function, ())
                    for condition in filters(link.child):
                        if condition.column != number:
                            yield cls(link, number, function, (condition,))

    def sql(self) -> str:
        assert self.link.parent.title
        value = aggregates.sql(self.function, f"c.{self.number.name}")
        shown = f"p.{self.link.parent.title.name}"
        return f"SELECT {shown}, {value} FROM {join(self.link)}{where(self.conditions, 'c.')} GROUP BY p.id"

    def wordings(self) -> tuple[str, ...]:
        parent = self.link.parent
        assert parent.title
        children, who, label = described(self.link.child.plural, self.conditions), parent.noun, parent.title.label
        value, remark = aggregates.words(self.function, self.number), aggregates.rounding(self.function)
        return (
            f"For each {who} with {children}, show the {label} and the {value}{remark} of those "
            f"{self.link.child.plural}.",
            f"What is the {value}{remark} of the {children}, per {who}? Show the {who}'s {label} and the value, and "
            f"leave out {parent.plural} without any.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, function=aggregates.NEXT[self.function])
        yield from (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class CountPerParent(Question):
    """How many rows refer to each named row, zeros included."""

    link: Link
    conditions: tuple[Filter, ...]
    outer: bool = True

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        return (cls(link, (condition,)) for link in links_to_named(domain) for condition in filters(link.child))

    def sql(self) -> str:
        assert self.link.parent.title
        on = " AND ".join(
            [f"c.{self.link.column.name} = p.id", *(condition.sql("c.") for condition in self.conditions)]
        )
        kind = "LEFT JOIN" if self.outer else "JOIN"
        tables = f"{self.link.parent.name} p {kind} {self.link.child.name} c ON {on}"
        return f"SELECT p.{self.link.parent.title.name}, COUNT(c.id) FROM {tables} GROUP BY p.id"

    def wordings(self) -> tuple[str, ...]:
        parent = self.link.parent
        assert parent.title
        children = described(self.link.child.plural, self.conditions)
        return (
            f"For every {parent.noun}, show the {parent.title.label} and the number of {children}, also where it is 0.",
            f"How many {children} does each {parent.noun} have? Show {parent.title.label} and count, zeros included.",
        )

    def near_misses(self) -> Iterator[Question]:
        yield replace(self, outer=False)
        yield from (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


@dataclass(frozen=True)
class CountOverTwoJoins(Question):
    """How many rows there are for each category of one referred row, given a condition on another.

    The second reference leaves from the base table (a fork) or from the first one's parent (a chain).
    """

    first: Link
    second: Link
    category: Column
    conditions: tuple[Filter, ...]

    @classmethod
    def every(cls, domain: Domain) -> Iterator[Self]:
        for first in domain.links():
            for second in domain.links():
                fork = second.child == first.child and second.column != first.column
                chain = second.child == first.parent
                if fork or chain:
                    for category in aggregates.groupings(first.parent):
                        yield from (cls(first, second, category, (condition,)) for condition in filters(second.parent))

    @property
    def _chained(self) -> bool:
        return self.second.child == self.first.parent

    def sql(self) -> str:
        first, second = self.first, self.second
        source = "a" if self._chained else "c"
        tables = (
            f"{first.child.name} c JOIN {first.parent.name} a ON c.{first.column.name} = a.id "
            f"JOIN {second.parent.name} b ON {source}.{second.column.name} = b.id"
        )
        group = f"a.{self.category.name}"
        return f"SELECT {group}, COUNT(*) FROM {tables}{where(self.conditions, 'b.')} GROUP BY {group}"

    def wordings(self) -> tuple[str, ...]:
        base, near, group = self.first.child.plural, self.first.column.label, self.category.label
        far = a(described(self.second.column.label, self.conditions))
        only = f"those whose {near} has {far}" if self._chained else f"those with {far}"
        return (
            f"Count the {base} by the {group} of their {near}, only {only}. Show {group} and count, and leave out "
            f"every {group} without any.",
            f"For each {group} of the {near}, show the {group} and the number of {base}, counting only {only}; "
            f"leave out every {group} without any.",
        )

    def near_misses(self) -> Iterator[Question]:
        return (replace(self, conditions=conditions) for conditions in near_misses(self.conditions))


SHAPES: tuple[type[Question], ...] = (CountJoined, AggregateByParent, CountPerParent, CountOverTwoJoins)
