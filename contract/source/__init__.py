"""A contract's text: strict YAML to a tree of nodes in which every key and value remembers its line and column."""

from contract.source.document import Document, parse_yaml, read_yaml
from contract.source.nodes import MappingNode, Mark, Node, Path, ScalarNode, SequenceNode, path_text

__all__ = ["Document", "MappingNode", "Mark", "Node", "Path", "ScalarNode", "SequenceNode", "parse_yaml", "path_text", "read_yaml"]
