"""Tool schemas at the edges of JSON Schema, and some beyond."""

from typing import Any

from tests.trainer.tool_schemas.case import Case

_TREE = {"type": "array", "items": {"$ref": "#/$defs/json~1value"}}
_LAYERS = {f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 6, "title": str(n)} for n in range(12)}


def _one(schema: Any, **more: Any) -> dict[str, Any]:
    """An object schema with the one property `value`."""
    return {"type": "object", "properties": {"value": schema}, **more}


CASES: list[Case] = [
    Case("no_schema", None),
    Case("empty_schema", {}, {"anything": 1}),
    Case("not_an_object", {"type": "string"}),
    Case("a_list", {"type": "array", "items": {"type": "integer"}}),
    Case("open_object", {"type": "object"}, {"free": [1]}),
    Case("properties_are_a_list", {"type": "object", "properties": ["a"], "required": "a"}, {"a": 1}, {}),
    Case(
        "required_unknown",
        {"type": "object", "properties": {"a": {}}, "required": ["a", "b", 3]},
        {"a": 1, "b": 2},
        {"a": True, "b": True},
    ),
    Case("type_missing", {"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1}),
    Case("nullable_object", {"type": ["object", "null"], "properties": {"a": {"type": "integer"}}}, {"a": 1}),
    Case("boolean_schemas", {"type": "object", "properties": {"yes": True, "no": False}}, {"yes": {"a": None}}),
    Case("schema_is_text", _one("string"), {"value": 1}),
    Case("unknown_type", _one({"type": "file"}), {"value": "a"}),
    Case("type_is_a_number", _one({"type": 5}), {"value": "a"}),
    Case("type_list", _one({"type": ["string", "integer", "null"]}), {"value": None}),
    Case("type_list_empty", _one({"type": []}), {"value": 0}),
    Case("nullable", _one({"type": "string", "nullable": True}), {"value": None}),
    Case("keywords_only", _one({"items": {"type": "integer"}}), {"value": [1]}),
    Case("enum_without_type", _one({"enum": ["a", 1, 1.5, True, None]}), {"value": True}),
    Case("enum_of_structures", _one({"enum": [[1, 2], {"a": 1}, "x"]}), {"value": [1, 2]}),
    Case("enum_empty", _one({"type": "string", "enum": []}), {"value": "x"}),
    Case(
        "enum_huge", _one({"type": "string", "enum": [f"option {n}" for n in range(5_000)]}), {"value": "option 4999"}
    ),
    Case("enum_repeats", _one({"enum": [1, 1, True, 1.0]}), {"value": 1}),
    Case("enum_half_surrogate", _one({"enum": ["\ud800", "b"], "description": "\udfff?"}), {"value": "b"}),
    Case("const_object", _one({"const": {"a": 1}}), {"value": {"a": 1}}),
    Case("const_null", _one({"const": None}), {"value": None}),
    Case(
        "enum_of_consts", _one({"oneOf": [{"const": "a", "title": "A"}, {"const": 1}, {"type": "null"}]}), {"value": 1}
    ),
    Case("ref_dangling", _one({"$ref": "#/$defs/missing"}), {"value": [1]}),
    Case("ref_remote", _one({"$ref": "https://example.com/schema.json"}), {"value": {"a": 1}}),
    Case("ref_number", _one({"$ref": 7, "type": "integer"}), {"value": 7}),
    Case("ref_to_itself", _one({"$ref": "#/properties/value"}), {"value": 1}),
    Case("ref_to_root", _one({"$ref": "#"}), {"value": {"value": {}}}),
    Case("ref_into_list", _one({"$ref": "#/x/1"}, x=[{}, {"type": "integer"}]), {"value": 1}),
    Case(
        "ref_escaped", _one({"$ref": "#/$defs/a~1b~0c%25"}, **{"$defs": {"a/b~c%": {"type": "integer"}}}), {"value": 1}
    ),
    Case(
        "ref_with_siblings",
        _one(
            {"$ref": "#/$defs/a", "description": "mine"},
            **{"$defs": {"a": {"type": "integer", "description": "theirs"}}},
        ),
        {"value": 1},
    ),
    Case(
        "recursive_json",
        _one({"$ref": "#/$defs/json~1value"}, **{"$defs": {"json/value": {"anyOf": [{"type": "string"}, _TREE]}}}),
        {"value": ["a", [["b"], []]]},
    ),
    Case(
        "exponential_refs",
        _one({"$ref": "#/$defs/L0"}, **{"$defs": {**_LAYERS, "L12": {"type": "string"}}}),
        {"value": "a"},
    ),
    Case(
        "root_reference",
        {"$ref": "#/$defs/args", "$defs": {"args": _one({"type": "integer"}, required=["value"])}},
        {"value": 1},
        {"value": True},
    ),
    Case(
        "root_all_of",
        {"allOf": [_one({"type": "integer"}, required=["value"]), {"properties": {"b": {"type": "string"}}}]},
        {"value": 1, "b": ""},
        {"value": True, "b": False},
    ),
    Case(
        "root_alternatives",
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
            "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
        },
        {"name": "a"},
    ),
    Case(
        "all_of_property",
        _one({"allOf": [{"type": "string"}, {"minLength": 2}], "description": "both"}),
        {"value": "ab"},
    ),
    Case("all_of_not_schemas", _one({"allOf": ["x", None, 3]}), {"value": 1}),
    Case(
        "one_of_types",
        _one({"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}),
        {"value": [1]},
    ),
    Case("any_of_empty", _one({"anyOf": []}), {"value": 1}),
    Case("any_of_anything", _one({"anyOf": [{"type": "integer"}, {}]}), {"value": "a"}),
    Case(
        "tuple_draft_4",
        _one({"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}),
        {"value": [1]},
    ),
    Case("tuple_open", _one({"type": "array", "prefixItems": [{"type": "integer"}]}), {"value": [1, "a"]}),
    Case(
        "tuple_closed",
        _one({"type": "array", "prefixItems": [{"type": "integer"}] * 2, "items": False, "minItems": 2}),
        {"value": [1, 2]},
    ),
    Case("array_untyped", _one({"type": "array"}), {"value": [1, "a", [None]]}),
    Case("array_of_null", _one({"type": "array", "items": {"type": "null"}}), {"value": [None]}),
    Case("items_true", _one({"type": "array", "items": True}), {"value": [1]}),
    Case(
        "pattern_properties",
        _one({"type": "object", "patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}),
        {"value": {"n1": 1}},
    ),
    Case(
        "pattern_properties_open",
        _one({"type": "object", "patternProperties": {"^n": {"type": "integer"}}}),
        {"value": {"a": "b"}},
    ),
    Case("exclusive_draft_4", _one({"type": "integer", "minimum": 0, "exclusiveMinimum": True}), {"value": 1}),
    Case(
        "descriptions_not_text",
        {
            "properties": {
                "a": {"description": 5},
                "b": {"description": None},
                "c": {"description": ["x"]},
                "d": {"description": True},
            }
        },
        {"a": 1},
    ),
    Case("default_not_scalar", _one({"type": "object", "default": {"a": [1]}}), {"value": {}}),
    Case(
        "constraints_not_numbers",
        _one({"type": "string", "minLength": "two", "pattern": 5, "format": None}),
        {"value": "a"},
    ),
    Case(
        "deep_inline",
        _one({"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}}),
        {"value": [[[1]]]},
    ),
    Case(
        "clashing_names",
        {"properties": {name: {"type": "integer"} for name in ("a-b", "a_b", "a.b", "from", "from_", "self", "self_")}},
        {"a-b": 1, "a_b": 2, "a.b": 3, "from": 4, "from_": 5, "self": 6, "self_": 7},
        dict.fromkeys(("a_b_2", "a_b", "a_b_3", "from__2", "from_", "self__2", "self_"), False),
    ),
    Case(
        "names_of_our_own",
        {
            "properties": {
                name: {"type": "integer"} for name in ("arguments", "name", "wire_name", "cls", "tool", "kwargs")
            }
        },
        {"arguments": 1, "name": 2, "wire_name": 3, "cls": 4, "tool": 5, "kwargs": 6},
    ),
    Case(
        "names_not_ascii",
        {
            "properties": {
                name: {"type": "integer"} for name in ("日本", "naïve", "a\u0301", "²", "\u2118", "🐟", "a\nb")
            }
        },
        {"日本": 1, "naïve": 2, "a\u0301": 3, "²": 4, "\u2118": 5, "🐟": 6, "a\nb": 7},
        dict.fromkeys(("日本", "naïve", "a_", "_", "__2", "__3", "a_b"), False),
    ),
    Case(
        "numbers",
        _one({"type": "number"}, properties={"big": {}, "small": {}, "zero": {}}),
        {"big": 2**100, "small": 5e-324, "zero": -0.0},
    ),
    Case("empty_values", {"properties": {"a": {}, "b": {}, "c": {}, "d": {}}}, {"a": "", "b": [], "c": {}, "d": None}),
    Case("long_text", _one({"type": "string", "description": "word " * 20_000}), {"value": "x" * 100_000}),
    Case(
        "long_blank",
        _one({"type": "string", "description": " \n\t" * 30_000}),
        {"value": " \t\n"},
        description="a" + "\n \t" * 30_000,
    ),
    Case("many_choices", _one({"type": "string", "description": "(choices: " * 10_000 + ")"}), {"value": "x"}),
]
