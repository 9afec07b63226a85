"""Stored runs: written, read, compared, exported, plotted and shown live in a browser."""

from fzoos._util.lazy_package import load_on_use

load_on_use(__name__, {})
