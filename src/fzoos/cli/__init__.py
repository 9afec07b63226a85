"""The command line."""

from fzoos.cli.app import app, main

__all__ = ["app", "main"]
