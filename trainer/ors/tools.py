"""From the tools a server lists to Python methods that a trainer can find, describe to the model, and call.

TRL takes the public plain functions on an environment's class for its tools and describes them with
`transformers.utils.get_json_schema`, that is by signature and Google-style docstring. `bind` makes such functions as
closures, so a server's text is never run as code. The schema as the server listed it is kept beside each function.
"""

import inspect
import keyword
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Protocol, cast

from trainer.ors.docstrings import docstring
from trainer.ors.hints import SCALARS, hint
from trainer.ors.notes import parameter_text
from trainer.ors.schemas import SchemaReader
from trainer.ors.text import encodable

_TRAINER_NAMES = frozenset({"reset", "get_reward"})  # TRL calls these itself and never shows them to the model
_MAX_NAME_CHARS = 64  # what function-calling interfaces accept, so that a trained model can be served by one
_MAX_SCHEMA_DEPTH = 100  # transformers walks tool schemas recursively before it renders them


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the server lists it, as plain data.

    Args:
        name: its name on the wire; any string.
        description: what the server says about it; any text.
        input_schema: the JSON Schema of the arguments object, or None for a tool without arguments.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any] | None


@dataclass(frozen=True)
class BoundTool:
    """A tool as a method for an environment class.

    Args:
        spec: what the server listed.
        attribute: the name for the class attribute; also `function.__name__`, hence what the model calls.
        function: a plain function whose keyword arguments go, with their wire names, to `self._call(name, arguments)`.
        schema: the tool in the form chat templates take, with the server's schema of the arguments as it came, but for
            what no tokenizer can encode.
    """

    spec: ToolSpec
    attribute: str
    function: FunctionType
    schema: dict[str, Any]


class _Caller(Protocol):
    def _call(self, name: str, arguments: dict[str, Any]) -> str: ...


def bind(tools: Sequence[ToolSpec], reserved: Collection[str] = ()) -> list[BoundTool]:
    """Make one method for each tool, in the order given. Never raises for a tool list that came as JSON.

    Of two tools with one name the first wins: a call carries nothing but the name, so the server cannot tell them
    apart. A tool whose name is no string is left out, since no call can name it.

    Args:
        tools: what the server lists.
        reserved: names that the environment class needs for itself, besides TRL's `reset` and `get_reward`.
    """
    specs: dict[str, ToolSpec] = {}
    for spec in tools:
        if isinstance(spec.name, str):
            specs.setdefault(spec.name, spec)
    attributes = _safe_names(specs, _TRAINER_NAMES.union(reserved), public=True)
    return [_bound(spec, attributes[name]) for name, spec in specs.items()]


def _bound(spec: ToolSpec, attribute: str) -> BoundTool:
    parameters = _plain_copy(spec.input_schema)
    description = spec.description if isinstance(spec.description, str) else ""
    if not isinstance(parameters, dict) or not parameters:
        parameters = {"type": "object", "properties": {}}
    function = {"name": attribute, "description": description, "parameters": parameters}
    return BoundTool(
        spec,
        attribute,
        _function(spec.name, attribute, description, parameters),
        {"type": "function", "function": encodable(function)},
    )


def _function(wire_name: str, attribute: str, description: str, schema: dict[str, Any]) -> FunctionType:
    properties, required = SchemaReader(schema).members(schema)
    names = _safe_names(properties, {"self"}, public=False)
    shown = [(name, wire) for wire, safe in names.items() for name in (safe, encodable(wire))]
    wire_names = {name: wire for name, wire in shown if name not in properties}

    # Positional-only, because a tool may well have an argument called `self`.
    def call(self: _Caller, /, **arguments: Any) -> str:
        return self._call(wire_name, _on_the_wire(arguments, wire_names))

    ordered = sorted(properties, key=lambda wire: wire not in required)
    parameters = [_parameter(names[wire], properties[wire], wire in required, schema) for wire in ordered]
    texts = {names[wire]: (wire in required, parameter_text(properties[wire], schema)) for wire in ordered}
    function = cast(FunctionType, call)
    function.__name__ = function.__qualname__ = attribute
    function.__doc__ = docstring(description if description.strip() else f"Tool {attribute}.", texts)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": str}
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    function.__dict__["__signature__"] = inspect.Signature([receiver, *parameters], return_annotation=str)
    return function


def _parameter(name: str, schema: object, required: bool, root: dict[str, Any]) -> inspect.Parameter:
    """A keyword of the signature. Its default only informs: an argument that is not given is not sent."""
    default: Any = inspect.Parameter.empty
    if not required:
        default = SchemaReader(root).resolve(schema).get("default", ...)
        default = default if isinstance(default, SCALARS) else ...
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint(schema, root), default=default)


def _on_the_wire(arguments: Mapping[str, Any], wire_names: Mapping[str, str]) -> dict[str, Any]:
    """The arguments under their wire names, in their order.

    A model that was shown the server's schema uses wire names already. An argument given under both names is sent under
    both, for the server to judge.
    """
    sent = {}
    for name, value in arguments.items():
        wire = wire_names.get(name, name)
        sent[name if wire in arguments else wire] = value
    return sent


def _safe_names(names: Iterable[str], reserved: Collection[str], public: bool) -> dict[str, str]:
    """For each name a Python identifier, all different; names that are fine keep themselves, whatever the order."""
    wanted = {name: _identifier(name, reserved, public) for name in names}
    taken = set(reserved)
    safe: dict[str, str] = {}
    for name in sorted(wanted, key=lambda name: wanted[name] != name):
        candidate, count = wanted[name], 1
        while candidate in taken:
            count += 1
            suffix = f"_{count}"
            candidate = wanted[name][: _MAX_NAME_CHARS - len(suffix)] + suffix
        taken.add(candidate)
        safe[name] = candidate
    return safe


def _identifier(name: str, reserved: Collection[str], public: bool) -> str:
    """The nearest identifier of letters, digits and underscores, all that `get_json_schema` takes for a name."""
    word = "".join(char if char.isalnum() and f"a{char}".isidentifier() else "_" for char in name)
    if public:  # TRL takes a leading underscore for a private method
        word = word.lstrip("_")[:_MAX_NAME_CHARS] or "tool"
    if not word.isidentifier():
        word = f"tool_{word}"[:_MAX_NAME_CHARS] if public else f"_{word}"
    return f"{word}_" if keyword.iskeyword(word) or word in reserved else word


def _plain_copy(value: object, depth: int = 0) -> Any:
    """A deep copy in the types that JSON has; what lies deeper than any real schema goes is left out."""
    if isinstance(value, Mapping):
        return {key: _plain_copy(item, depth + 1) for key, item in value.items()} if depth < _MAX_SCHEMA_DEPTH else {}
    if isinstance(value, list | tuple):
        return [_plain_copy(item, depth + 1) for item in value] if depth < _MAX_SCHEMA_DEPTH else []
    return value
