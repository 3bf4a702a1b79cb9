"""A conformance check for any server of the Open Reward Standard, in any language."""

from envs.check.limits import Limits
from envs.check.report import Report, Result
from envs.check.rules import RULES
from envs.check.runner import CheckError, run_check

__all__ = ["RULES", "CheckError", "Limits", "Report", "Result", "run_check"]
