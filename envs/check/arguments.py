"""Arguments for a tool, made from its JSON Schema: valid ones, wrong ones, ones with a given text. Always the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from jsonschema.protocols import Validator
from referencing.jsonschema import EMPTY_REGISTRY

TEXT = "ors-check"
_WAITS = ("seconds", "delay", "duration", "sleep", "wait")
_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "check@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
}
_DEEPEST = 8
# One call's arguments, however many and however long a schema asks them to be.
_MOST_PARTS = 1_000
_LONGEST_TEXT = 100_000

Schema = Mapping[str, Any]
Arguments = dict[str, Any]


def valid(schema: Schema | None, text: str = TEXT, number: float = 0) -> Arguments | None:
    """Return the smallest arguments that the schema accepts, or None where this generator finds none.

    Args:
        schema: a tool's `input_schema`; None and {} take no arguments.
        text: used for every free string.
        number: used for every free number, moved into its bounds.
    """
    if not schema:
        return {}
    if problem(schema):
        return None
    try:
        made = _Maker(schema, text, number).make(schema, 0)
    except Exception:  # valid, and beyond this generator: a number that overflows, a reference to what is no schema
        return None
    return made if isinstance(made, dict) and accepts(schema, made) else None


def problem(schema: Schema) -> str:
    """Return what makes a schema invalid JSON Schema, "" where nothing does."""
    try:
        _draft(schema).check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        return f"{error.json_path}: {error.message}"
    except Exception as error:  # what the library raises for a $schema that is no name, or for too deep a schema
        return f"cannot be read: {type(error).__name__}: {error}"
    return ""


def with_text(schema: Schema | None, text: str) -> Iterator[Arguments]:
    """Yield arguments that carry `text` in one top-level string property, one property after the other."""
    base = valid(schema)
    if schema is None or base is None:
        return
    for name in properties(schema):
        arguments = {**base, name: text}
        if (
            isinstance(base.get(name, TEXT), str)
            and accepts(schema, arguments)
            and not accepts(schema, {**base, name: 0})
        ):
            yield arguments


def waiting(schema: Schema | None, seconds: float) -> Arguments | None:
    """Return arguments that ask a tool to take `seconds`, or None where the tool has no number called so."""
    base = valid(schema)
    if schema is None or base is None:
        return None
    for name in properties(schema):
        if any(word in name.lower() for word in _WAITS):
            for value in (seconds, int(seconds) + 1):
                if accepts(schema, {**base, name: value}) and not accepts(schema, {**base, name: TEXT}):
                    return {**base, name: value}
    return None


def wrong(schema: Schema | None) -> Arguments | None:
    """Return arguments that the schema forbids, in any lenient reading too, or None where it takes anything."""
    base = valid(schema)
    if schema is None or base is None:
        return None
    for name in properties(schema):
        for value in ({TEXT: [TEXT]}, TEXT, [[TEXT]]):
            if not accepts(schema, {**base, name: value}):
                return {**base, name: value}
    return None if accepts(schema, {}) else {}


def accepts(schema: Schema, arguments: Arguments) -> bool:
    """Tell whether a schema accepts arguments; one that cannot be read or resolved accepts nothing."""
    try:
        return bool(validator(schema).is_valid(arguments))
    except Exception:  # an invalid schema and an unresolvable reference raise different things, by depth
        return False


def validator(schema: Schema) -> Validator:
    """Return a validator of the draft that the schema names, 2020-12 where it names none."""
    # Known drafts only: by default a reference to another host, or to a file, would be fetched.
    return _draft(schema)(schema, registry=EMPTY_REGISTRY)


def _draft(schema: Schema) -> type[Validator]:
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)


def properties(schema: Schema) -> list[str]:
    """Return the names of the top-level properties."""
    found = schema.get("properties")
    return list(found) if isinstance(found, Mapping) else []


def leaves(value: Any) -> Iterator[str | int | float]:
    """Yield the strings and numbers in a task, depth first: one of them is often the answer."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)


class _Maker:
    def __init__(self, root: Schema, text: str, number: float) -> None:
        self._root = root
        self._text = text
        self._number = number
        self._parts = 0

    def make(self, schema: Any, depth: int) -> Any:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise ValueError("too many parts")
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return self._text
        if "$ref" in schema:
            return self.make(
                {**self._resolve(schema["$ref"]), **{k: v for k, v in schema.items() if k != "$ref"}}, depth + 1
            )
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        if schema.get("allOf"):
            merged: dict[str, Any] = {k: v for k, v in schema.items() if k != "allOf"}
            for part in schema["allOf"]:
                merged |= self._resolve(part["$ref"]) if "$ref" in part else part
            return self.make(merged, depth + 1)
        for choice in ("anyOf", "oneOf"):
            if schema.get(choice):
                options = [option for option in schema[choice] if option != {"type": "null"}] or schema[choice]
                return self.make(options[0], depth + 1)
        return self._typed(schema, depth)

    def _typed(self, schema: Schema, depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        match kind:
            case "object":
                known = schema.get("properties", {})
                return {name: self.make(known.get(name, {}), depth + 1) for name in schema.get("required", [])}
            case "array":
                return [self.make(schema.get("items", {}), depth + 1) for _ in range(int(schema.get("minItems", 0)))]
            case "integer":
                return int(self._bounded(schema, whole=True))
            case "number":
                return self._bounded(schema, whole=False)
            case "boolean":
                return False
            case "null":
                return None
        return self._string(schema)

    def _string(self, schema: Schema) -> str:
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        if schema.get("minLength", 0) > _LONGEST_TEXT:
            raise ValueError("too long a text")
        text = self._text.ljust(int(schema.get("minLength", 0)), "x")
        return text[: int(schema.get("maxLength", len(text)))]

    def _bounded(self, schema: Schema, *, whole: bool) -> float:
        step = schema.get("multipleOf", 1 if whole else 0.5)
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        value = self._number
        if high is not None and value >= high:
            value = high - (step if "exclusiveMaximum" in schema else 0)
        if low is not None and value <= low:
            value = low + (step if "exclusiveMinimum" in schema else 0)
        return -(-value // step) * step if whole or "multipleOf" in schema else value

    def _resolve(self, reference: str) -> dict[str, Any]:
        found: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            found = (
                found.get(part.replace("~1", "/").replace("~0", "~"), {})
                if part and isinstance(found, Mapping)
                else found
            )
        return dict(found) if isinstance(found, Mapping) else {}
