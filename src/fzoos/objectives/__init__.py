"""What is minimised: the box, a client's queries, and objectives that are programs or evaluated by hand."""

from fzoos._util.lazy_package import load_on_use

load_on_use(__name__, {})
