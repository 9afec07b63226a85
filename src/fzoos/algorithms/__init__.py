"""The algorithms; a new one is one file here and one line in `registry.py`."""

from fzoos._util.lazy_package import load_on_use

load_on_use(__name__)
