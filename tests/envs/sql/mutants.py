"""Wrong queries made from right ones by changing their text, without a look at how the questions are built."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = r"(?:\w\.)?\w+"
_VALUE = r"(?:'[^']*'|\d+)"
_CONDITION = re.compile(
    rf"(?:strftime\('%Y', {_NAME}\)|{_NAME}) (?:=|>=|<=|>|<) {_VALUE}(?!\))|{_NAME} IS (?:NOT )?NULL"
)
_NUMBER = re.compile(r"(?<=[<>=] )(\d+)\b|(?<= - )(\d+)\b|(?<='-)(\d+)(?= days')|(?<== ')(20\d\d)(?=')")
_JOIN = re.compile(r"(\w)\.(\w+_id) = (\w)\.id")
# Not before a subquery: no row lies exactly on an average, so > and >= are the same query there.
_BOUNDARY = re.compile(r" (>=|<=|>|<) (?!\(SELECT)")
_SWAPS = {
    ">": ">=", ">=": ">", "<": "<=", "<=": "<",
    "EXCEPT": "INTERSECT", "INTERSECT": "UNION", "UNION": "INTERSECT",
    "NOT EXISTS": "EXISTS", "LEFT JOIN": "JOIN", "AVG(": "MAX(", "SUM(": "AVG(", "MIN(": "MAX(", "MAX(": "MIN(",
}  # fmt: skip


def mutants(sql: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, query) for every mutant: dropped filters, wrong joins, steps off by one, swapped words."""
    for found in _CONDITION.finditer(sql):
        yield "dropped filter", _replaced(sql, found, "1 = 1")
    for found in _JOIN.finditer(sql):
        yield "wrong join", _replaced(sql, found, f"{found[1]}.id = {found[3]}.id")
    for found in _NUMBER.finditer(sql):
        yield "off by one", _replaced(sql, found, str(int(found[0]) + 1))
        yield "off by one", _replaced(sql, found, str(int(found[0]) - 1))
    for found in _BOUNDARY.finditer(sql):
        yield "off by one", _replaced(sql, found, f" {_SWAPS[found[1]]} ")
    for word in ("NOT EXISTS", "EXCEPT", "INTERSECT", "UNION", "LEFT JOIN", "AVG(", "SUM(", "MIN(", "MAX("):
        if word in sql:
            yield "swapped word", sql.replace(word, _SWAPS[word], 1)


def _replaced(sql: str, found: re.Match[str], text: str) -> str:
    return sql[: found.start()] + text + sql[found.end() :]
