"""From a tree of nodes to typed msgspec Structs, or every reason why not; and the JSON Schema that says the same to an editor."""

from contract.structs.load import load_typed
from contract.structs.problems import STRUCT_RULES, SpecInvalid
from contract.structs.schema import json_schema

__all__ = ["STRUCT_RULES", "SpecInvalid", "json_schema", "load_typed"]
