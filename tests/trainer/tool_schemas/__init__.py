"""A corpus of tool schemas, each with a call that it allows."""

from tests.trainer.tool_schemas import edges, model_calls, servers
from tests.trainer.tool_schemas.case import Case

CASES: list[Case] = [*model_calls.CASES, *servers.CASES, *edges.CASES]

__all__ = ["CASES", "Case"]
