"""The contract suite, for everybody's algorithms and engines."""

from fzoos.testing.quick import as_table, make_quick

__all__ = ["as_table", "make_quick"]
