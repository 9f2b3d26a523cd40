"""Organisation policy: bounds that neither a contract nor a waiver nor a flag can loosen."""

from contract.policy.load import SYSTEM_FILE, VARIABLE, Policy, load_policy, policy_files
from contract.policy.rules import POLICY_RULES

__all__ = ["POLICY_RULES", "SYSTEM_FILE", "VARIABLE", "Policy", "load_policy", "policy_files"]
