"""What a parameter's schema says, in words: its description, and what its type hint has to leave out.

A type hint names no keys of a nested object and no bounds, so those are told to the model in the text, as in
`Edits to make (list of JSON object {old: string; new: string (optional)}; minimum items 1)`.
"""

import json
from collections.abc import Mapping
from typing import Any

from trainer.ors.hints import SCALARS
from trainer.ors.schemas import SchemaReader, Trail, array_parts, branches, choices, open_values, types

_CONSTRAINTS = {
    "format": "format",
    "pattern": "pattern",
    "contentEncoding": "encoding",
    "contentMediaType": "media type",
    "minimum": "minimum",
    "exclusiveMinimum": "greater than",
    "maximum": "maximum",
    "exclusiveMaximum": "less than",
    "multipleOf": "multiple of",
    "minLength": "minimum length",
    "maxLength": "maximum length",
    "minItems": "minimum items",
    "maxItems": "maximum items",
    "uniqueItems": "unique items",
    "minProperties": "minimum keys",
    "maxProperties": "maximum keys",
    "default": "default",
    "examples": "examples",
}
_MAX_CHARS = 2_000  # for a shape
_MAX_VALUE_CHARS = 300  # for a default, a pattern, a nested description
_MAX_CHOICES = 100


def parameter_text(schema: object, root: object) -> str:
    """The text for one parameter, never empty.

    Args:
        schema: the schema of the parameter.
        root: the whole schema, which references point into.
    """
    reader = SchemaReader(root)
    description = _description(reader, schema)
    shape, richer = _shape(reader, schema, ())
    shape = _cut(shape, _MAX_CHARS)
    notes = "; ".join([*([shape] if richer else []), *_constraints(reader.resolve(schema))])
    if description and notes:
        return f"{description} ({notes})"
    return description or notes or shape


def parameter_parts(schema: object, root: object) -> tuple[str, list[str]]:
    """The description of one parameter, "" where it has none, and its type with its constraints, a phrase each.

    For a reader who is shown no type hint beside the text; arguments as of `parameter_text`.
    """
    reader = SchemaReader(root)
    shape = _cut(_shape(reader, schema, ())[0], _MAX_CHARS)
    return _description(reader, schema), [shape, *_constraints(reader.resolve(schema))]


def _description(reader: SchemaReader, schema: object) -> str:
    """The property's own description, or that of the definition it refers to; "" where there is none."""
    text = reader.resolve(schema).get("description")
    return str(text).strip() if isinstance(text, str | int | float) and not isinstance(text, bool) else ""


def _shape(reader: SchemaReader, schema: object, trail: Trail) -> tuple[str, bool]:
    """The type in words, and whether they say more than the type hint does."""
    node, trail, stop = reader.enter(schema, trail)
    values, kinds = choices(node), types(node)
    if values is not None:
        listed = [_value(value) for value in values[:_MAX_CHOICES]] + (["…"] if len(values) > _MAX_CHOICES else [])
        return f"one of {', '.join(listed)}", not all(isinstance(value, SCALARS) for value in values)
    if stop:
        shapes = [(kind, False) for kind in kinds]
    elif kinds:
        shapes = [_typed_shape(reader, kind, node, trail) for kind in kinds]
    else:
        shapes = [_nested_shape(reader, branch, trail) for branch in branches(node)]
    if node.get("nullable") is True:
        shapes.append(("null", False))
    words = " or ".join(dict.fromkeys(text for text, _ in shapes))
    return words or "any JSON value", any(richer for _, richer in shapes)


def _typed_shape(reader: SchemaReader, kind: str, node: Mapping[str, Any], trail: Trail) -> tuple[str, bool]:
    if kind == "array":
        prefix, rest = array_parts(node)
        shapes = [_nested_shape(reader, item, trail) for item in ([*prefix, rest] if rest else prefix)]
        prefixed = "list of " if shapes else "list"
        return prefixed + ", then ".join(text for text, _ in shapes), any(richer for _, richer in shapes)
    if kind == "object":
        properties, required = reader.members(node, trail[:-1])
        if properties:
            keys = [_key(reader, name, schema, name in required, trail) for name, schema in properties.items()]
            return "JSON object {" + "; ".join(keys) + "}", True
        shapes = [_nested_shape(reader, value, trail) for value in open_values(node) or ()]
        prefixed = "JSON object of " if shapes else "JSON object"
        return prefixed + " or ".join(text for text, _ in shapes), any(richer for _, richer in shapes)
    return kind, False


def _nested_shape(reader: SchemaReader, schema: object, trail: Trail) -> tuple[str, bool]:
    shape, richer = _shape(reader, schema, trail)
    constraints = _constraints(reader.resolve(schema))
    return (f"{shape} ({'; '.join(constraints)})" if constraints else shape), richer or bool(constraints)


def _key(reader: SchemaReader, name: str, schema: object, required: bool, trail: Trail) -> str:
    description = _cut(" ".join(_description(reader, schema).split()), _MAX_VALUE_CHARS)
    details = [*([] if required else ["optional"]), *_constraints(reader.resolve(schema)), *filter(None, [description])]
    words = f"{name}: {_shape(reader, schema, trail)[0]}"
    return f"{words} ({'; '.join(details)})" if details else words


def _constraints(node: Mapping[str, Any]) -> list[str]:
    """The schema's constraints and its default as phrases such as "minimum 1"."""
    notes = []
    for keyword, phrase in _CONSTRAINTS.items():
        value = node.get(keyword)
        if keyword == "uniqueItems":
            notes += [phrase] if value is True else []
        elif keyword in ("default", "examples"):
            notes += [] if value is None else [f"{phrase} {_value(value)}"]
        elif value is not None and not isinstance(value, bool):  # in draft 4 `exclusiveMinimum` qualifies `minimum`
            notes.append(_cut(f"{phrase} {value if isinstance(value, str) else _value(value)}", _MAX_VALUE_CHARS))
    return notes


def _value(value: object) -> str:
    return _cut(json.dumps(value, ensure_ascii=False), _MAX_VALUE_CHARS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
