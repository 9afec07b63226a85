"""What travels between server and clients: named arrays and scalars that know their size, as bytes and back."""

from typing import TYPE_CHECKING

from fzoos._util.lazy_package import load_on_use

if TYPE_CHECKING:
    from fzoos.messages.message import Arrays, Kind, Message

__all__ = ["Arrays", "Kind", "Message"]

load_on_use(__name__, {"fzoos.messages.message": "Arrays Kind Message"})
