"""Results and schemas as text for a model: small, aligned, and saying what was left out.

A text stays under 4,000 characters: the protocol's events carry 4,096, and white space where two of them meet is not
safe with every client.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.sql.compare import Cell, Row
from envs.sql.sandbox import Result
from envs.sql.schema import SQL_TYPES, Column, Domain, Table

ROWS = 20
SAMPLE_ROWS = 3
_WIDTH = 120
_CELL = 32
_ERROR = 300


def result_text(result: Result) -> str:
    """Return a query's result as a table with at most ROWS rows, and a line on how many rows there are."""
    table, columns_left_out, cut = _table(result.columns, result.rows)
    total = f"{result.total:,} {'row' if result.total == 1 else 'rows'}"
    notes = [total if result.complete else f"more than {total}"]
    if result.total > len(result.rows):
        notes.append(f"the first {len(result.rows)} are shown")
    if columns_left_out:
        notes.append(f"{columns_left_out} more columns are left out")
    if cut:
        notes.append("long values are cut")
    return f"{table}\n({', '.join(notes)})"


def error_text(error: Exception) -> str:
    """Return an error as one line of at most 300 characters: a query can put any text into the database's words."""
    text = f"Error: {_printable(str(error))}"
    return text if len(text) <= _ERROR else f"{text[: _ERROR - 1]}…"


def domain_text(domain: Domain) -> str:
    """Return every table with its columns, types and keys, a line each."""
    return "\n".join(
        f"{table.name}({', '.join(_column(column) for column in table.columns)})" for table in domain.tables
    )


def table_text(table: Table, first_rows: Sequence[Row]) -> str:
    """Return one table's columns, a line each, and its first rows."""
    columns = "\n".join(f"  {_column(column)}{' NULL' if column.nulls else ''}" for column in table.columns)
    rows, *_ = _table([column.name for column in table.columns], first_rows)
    return f"{table.name}\n{columns}\nThe first {len(first_rows)} rows:\n{rows}"


def _column(column: Column) -> str:
    text = f"{column.name} {SQL_TYPES[column.kind]}"
    if column.kind == "key":
        return f"{text} PRIMARY KEY"
    return f"{text} REFERENCES {column.target}(id)" if column.kind == "reference" else text


def _table(columns: Sequence[str], rows: Sequence[Row]) -> tuple[str, int, bool]:
    """Return the aligned table, how many columns did not fit, and whether a value was cut."""
    texts = [[_text(cell) for cell in row] for row in (columns, *rows)]
    cut = any(len(text) > _CELL for row in texts for text in row)
    texts = [[text if len(text) <= _CELL else f"{text[: _CELL - 1]}…" for text in row] for row in texts]
    widths = [max(len(row[place]) for row in texts) for place in range(len(columns))]
    shown = 0
    while shown < len(widths) and sum(widths[: shown + 1]) + 3 * shown <= _WIDTH:
        shown += 1
    numeric = [all(isinstance(row[place], int | float | None) for row in rows) for place in range(shown)]
    lines = [_line(row, widths[:shown], numeric) for row in texts]
    lines.insert(1, "-+-".join("-" * width for width in widths[:shown]))
    return "\n".join(lines), len(columns) - shown, cut


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    cells = (
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(row, widths, numeric, strict=False)
    )
    return " | ".join(cells).rstrip()


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return "NULL"
        case str():
            return _printable(cell)
        case float():
            return f"{cell:.10g}"
        case _:
            return str(cell)


def _printable(text: str) -> str:
    """Return a text in which what would break its line, or a terminal, is spelled out: a line break is \\n."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
