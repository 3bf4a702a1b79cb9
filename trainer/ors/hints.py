"""From JSON Schema to the closest type hint that `transformers.utils.get_json_schema` (5.24) can turn back into it.

Where a schema says more than such a hint can, the hint is wider than the schema: the server has the last word on
arguments, and what is left out is told in the parameter's description (`docstrings.py`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from trainer.ors.schemas import SchemaReader, Trail, array_parts, branches, choices, open_values, types
from trainer.ors.text import encodable

SCALARS = (str, int, float, bool, type(None))
# Typed loosely: these are subscripted with hints that are known only when the program runs.
_LITERAL: Any = Literal
_UNION: Any = Union
_LIST: Any = list
_TUPLE: Any = tuple
_DICT: Any = dict
_HINTS: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def hint(schema: object, root: object) -> Any:
    """The closest type hint; `Any` where there is none.

    Args:
        schema: the schema of one parameter.
        root: the whole schema, which references point into.
    """
    return _hint(SchemaReader(root), schema, ())


def _hint(reader: SchemaReader, schema: object, trail: Trail) -> Any:
    node, trail, stop = reader.enter(schema, trail)
    values, kinds = choices(node), types(node)
    if values is not None:
        found = _union(_value_hint(value) for value in values)
    elif stop:
        found = _union(_HINTS.get(kind, Any) for kind in kinds)
    elif kinds:
        found = _union(_typed_hint(reader, kind, node, trail) for kind in kinds)
    else:
        found = _union(_hint(reader, branch, trail) for branch in branches(node))
    return _union([found, type(None)]) if node.get("nullable") is True else found


def _typed_hint(reader: SchemaReader, kind: str, node: Mapping[str, Any], trail: Trail) -> Any:
    if kind == "array":
        prefix, rest = array_parts(node)
        hints = [_hint(reader, item, trail) for item in prefix]
        if len(prefix) > 1 and rest is None and node.get("minItems") == len(prefix):
            return _TUPLE[tuple(hints)]  # get_json_schema refuses a tuple of one
        item = _union(hints if rest is None else [*hints, _hint(reader, rest, trail)])
        return list if item is Any else _LIST[item]
    if kind == "object":
        values = open_values(node)
        value = Any if values is None else _union(_hint(reader, schema, trail) for schema in values)
        return dict if value is Any else _DICT[str, value]
    return _HINTS.get(kind, Any)


def _value_hint(value: object) -> Any:
    if isinstance(value, str) and value != encodable(value):
        return str
    if isinstance(value, SCALARS):
        return _LITERAL[value]
    return dict if isinstance(value, Mapping) else list


def _union(hints: Iterable[Any]) -> Any:
    """One hint for several: `Any` absorbs the others, and literals become one `Literal`."""
    known = list(hints)
    if not known or any(one is Any for one in known):
        return Any
    literals = tuple(value for one in known if get_origin(one) is Literal for value in get_args(one))
    others = [one for one in known if get_origin(one) is not Literal]
    return _UNION[(*others, _LITERAL[literals])] if literals else _UNION[tuple(others)]
