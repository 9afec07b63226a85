"""Federated black-box optimisation with trajectory-informed surrogate gradients."""

from fzoos._util.lazy_package import load_on_use

__version__ = "0.2.0.dev0"

load_on_use(__name__)
