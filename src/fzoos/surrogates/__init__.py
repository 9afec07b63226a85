"""Surrogates of an objective's gradient, learned from the queries already made."""

from fzoos._util.lazy_package import load_on_use

load_on_use(__name__, {})
