"""What travels between server and clients: named arrays and scalars that know their size, as bytes and back."""

from fzoos._util.lazy_package import load_on_use

load_on_use(__name__)
