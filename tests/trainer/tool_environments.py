"""What tests of tool binding share: environments with the tools, and the programs that describe them to a model."""

import json
import urllib.request
from collections.abc import Callable
from typing import Any

from trainer.ors.tools import BoundTool, ToolSpec, bind


class WireEnvironment:
    """An environment whose tools are called over HTTP; a call's result is what the server received."""

    url = ""

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        body = json.dumps({"tool": name, "arguments": arguments}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, body), timeout=30) as response:
            text: str = response.read().decode()
        return text


class LocalEnvironment:
    """An environment whose tools answer with what they would send."""

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        return json.dumps({"tool": name, "arguments": arguments})


def equip(base: type, *tools: BoundTool) -> Any:
    """An instance of a class that has the tools for methods."""
    return type("Equipped", (base,), {tool.attribute: tool.function for tool in tools})()


def bind_one(schema: Any, name: str = "tool", description: Any = "Do it.") -> BoundTool:
    (bound,) = bind([ToolSpec(name, description, schema)])
    return bound


def method_of(bound: BoundTool) -> Callable[..., str]:
    """The tool as the method of an environment."""
    method: Callable[..., str] = getattr(equip(LocalEnvironment, bound), bound.attribute)
    return method


def described(bound: BoundTool) -> dict[str, Any]:
    """Name, description and parameters as get_json_schema reads them off the bound method."""
    from transformers.utils import get_json_schema  # takes seconds to import, which other tests need not pay

    function: dict[str, Any] = get_json_schema(method_of(bound))["function"]
    return function


def rendered(tool: Any) -> list[Any]:
    """What the model reads between <tools> and </tools> when the demo model's chat template is given one tool."""
    from transformers.utils.chat_template_utils import render_jinja_template
    from trl.chat_template_utils import qwen3_instruct_2507_chat_template

    conversation = [{"role": "user", "content": "Go."}]
    (text,), _ = render_jinja_template([conversation], tools=[tool], chat_template=qwen3_instruct_2507_chat_template)
    lines = text.split("within <tools></tools> XML tags:\n<tools>\n")[1].split("\n</tools>")[0]
    return [json.loads(line) for line in lines.split("\n")]


def without_nullable(schema: Any) -> Any:
    """`nullable`, which get_json_schema writes for optional types, in the terms of JSON Schema."""
    if isinstance(schema, list):
        return [without_nullable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: without_nullable(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain
