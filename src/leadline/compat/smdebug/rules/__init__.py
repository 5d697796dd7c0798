"""Rules in smdebug's interface."""

from leadline.compat.smdebug.rules.req_tensors import RequiredTensors
from leadline.compat.smdebug.rules.rule import Rule
from leadline.compat.smdebug.rules.rule_invoker import invoke_rule

__all__ = ["RequiredTensors", "Rule", "invoke_rule"]
