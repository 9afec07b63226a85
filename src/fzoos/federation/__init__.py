"""What every algorithm shares: the client's loop, the server's loop, and studies across machines."""

from fzoos._util.lazy_package import load_on_use

load_on_use(__name__)
