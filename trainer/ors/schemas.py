"""Reading JSON Schemas that strangers wrote: references, `allOf`, alternatives, schemas that are no schemas.

Nothing here raises on anything that JSON can express; what cannot be read says nothing, as the schema `{}` does.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

# A schema without `type` is taken for the type that its keywords speak about.
_TELLTALES = {
    "object": ("properties", "additionalProperties", "patternProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("pattern", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_MAX_DEPTH = 8
_MAX_NODES = 2_000  # a few lines of references can describe exponentially much

Trail = tuple[str, ...]
"""The references (or "" where there was none) that led to a schema, outermost first."""


class SchemaReader:
    """One walk through a schema, which ends at recursion, at great depth, and after many nodes.

    Args:
        root: the whole schema, which references point into.
    """

    def __init__(self, root: object) -> None:
        self._root = root
        self._nodes_left = _MAX_NODES

    def enter(self, schema: object, trail: Trail) -> tuple[dict[str, Any], Trail, bool]:
        """The resolved schema, the trail to what is inside it, and whether to go no further inside."""
        node, refs = self._resolve(schema)
        self._nodes_left -= 1
        stop = len(trail) >= _MAX_DEPTH or self._nodes_left < 0 or not refs.isdisjoint(trail)
        return node, (*trail, *(refs or ("",))), stop

    def resolve(self, schema: object) -> dict[str, Any]:
        """The schema with its references followed and its `allOf` parts merged in; what is outermost wins."""
        return self._resolve(schema)[0]

    def members(self, schema: object, trail: Trail = ()) -> tuple[dict[str, Any], set[str]]:
        """The properties of an object schema and the names of those that are always required.

        Properties of `allOf`, `anyOf` and `oneOf` branches count; of alternatives, what all require is required. A
        required name that nothing describes is a property that accepts anything, as JSON Schema has it. A schema of
        anything but an object has no properties.
        """
        node, trail, stop = self.enter(schema, trail)
        if stop or "object" not in (types(node) or ["object"]):
            return {}, set()
        listed = node.get("properties")
        properties = dict(listed) if isinstance(listed, Mapping) else {}
        required = {name for name in items(node.get("required")) if isinstance(name, str)}
        for keyword in ("anyOf", "oneOf"):
            branches = [self.members(branch, trail) for branch in items(node.get(keyword))]
            branches = [branch for branch in branches if branch[0]]
            if branches:
                required |= set.intersection(*(needed for _, needed in branches))
            variants: dict[str, list[Any]] = {}
            for branch_properties, _ in branches:
                for name, variant in branch_properties.items():
                    variants.setdefault(name, []).append(variant)
            for name, schemas in variants.items():
                properties.setdefault(name, schemas[0] if len(schemas) == 1 else {"anyOf": schemas})
        for name in sorted(required):
            properties.setdefault(name, {})
        return properties, required

    def _resolve(self, schema: object) -> tuple[dict[str, Any], set[str]]:
        node: dict[str, Any] = {}
        refs: set[str] = set()
        pending = [schema]
        while pending:
            part = pending.pop(0)
            if not isinstance(part, Mapping):
                continue
            ref = part.get("$ref")
            if isinstance(ref, str) and ref not in refs:
                refs.add(ref)
                pending.append(self._target(ref))
            pending.extend(items(part.get("allOf")))
            for keyword, value in part.items():
                known = node.get(keyword)
                if keyword == "properties" and isinstance(known, Mapping) and isinstance(value, Mapping):
                    node[keyword] = {**value, **known}
                elif keyword == "required" and isinstance(known, list) and isinstance(value, list):
                    node[keyword] = [*known, *value]
                elif keyword not in ("$ref", "allOf"):
                    node.setdefault(keyword, value)
        return node, refs

    def _target(self, ref: str) -> object:
        """What a JSON pointer in a URI fragment (RFC 6901) names; None if it is remote, an anchor, or dangling."""
        if ref != "#" and not ref.startswith("#/"):
            return None
        node: object = self._root
        for token in unquote(ref).split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(token)
            elif isinstance(node, Sequence) and token.isdecimal() and len(token) < 9 and int(token) < len(node):
                node = node[int(token)]
            else:
                return None
        return node


def items(value: object) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def types(node: Mapping[str, Any]) -> list[str]:
    """The types that a schema names, else the one that its keywords speak about; none for alternatives and `{}`."""
    named = node.get("type")
    known = [kind for kind in (named if isinstance(named, list) else [named]) if isinstance(kind, str)]
    if known or branches(node):
        return known
    guesses = [kind for kind, keywords in _TELLTALES.items() if any(keyword in node for keyword in keywords)]
    return guesses[:1]


def branches(node: Mapping[str, Any]) -> list[Any]:
    """The alternatives of a schema."""
    return items(node.get("anyOf")) or items(node.get("oneOf"))


def choices(node: Mapping[str, Any]) -> list[Any] | None:
    """The values that a schema lists as the only ones; None if it lists none."""
    return [node["const"]] if "const" in node else items(node.get("enum")) or None


def array_parts(node: Mapping[str, Any]) -> tuple[list[Any], Mapping[str, Any] | None]:
    """The schemas of an array's first items, and the schema of the others: None if there can be none."""
    rest: object
    if isinstance(node.get("items"), list):  # before draft 2020-12
        prefix, rest = node["items"], node.get("additionalItems")
    else:
        prefix, rest = items(node.get("prefixItems")), node.get("items")
    if prefix and (rest is False or node.get("maxItems") == len(prefix)):
        return prefix, None
    return prefix, rest if isinstance(rest, Mapping) else {}


def open_values(node: Mapping[str, Any]) -> list[Any] | None:
    """The schemas of the values under unnamed keys; None if they can be anything, or if the object has named keys."""
    patterns, others = node.get("patternProperties"), node.get("additionalProperties", True)
    if node.get("properties") or not (others is False or isinstance(others, Mapping)):
        return None
    schemas = list(patterns.values()) if isinstance(patterns, Mapping) else []
    return [*schemas, others] if isinstance(others, Mapping) else schemas
