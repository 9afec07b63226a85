"""Messages between server and clients: named arrays and scalars, their size, and their encoding as bytes."""

from fzoos._util.lazy_package import load_on_use

load_on_use(__name__)
