"""What one tool of the corpus consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from trainer.ors.tools import ToolSpec


@dataclass(frozen=True)
class Case:
    """A tool and one call of it.

    Args:
        name: the tool's wire name, unique in the corpus.
        schema: the schema of its arguments.
        arguments: arguments that the schema allows, under their wire names.
        parameters: for each parameter that the signature must have, whether it is required; by default what
            `properties` and `required` say.
        description: the tool's description.
    """

    name: str
    schema: Mapping[str, Any] | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, bool] | None = None
    description: str = "Do something."

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.schema)

    @property
    def expected_parameters(self) -> Mapping[str, bool]:
        if self.parameters is not None:
            return self.parameters
        schema = self.schema or {}
        return {name: name in schema.get("required", []) for name in schema.get("properties", {})}


def of_model(model: type[BaseModel], parameters: Mapping[str, bool] | None = None, **arguments: Any) -> Case:
    """The case of a tool whose arguments are a pydantic model, as the ORS server lists it."""
    return Case(model.__name__, model.model_json_schema(), arguments, parameters, model.__doc__ or "")
