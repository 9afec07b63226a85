"""What travels between server and clients: named arrays and scalars that know their size, as bytes and back."""

from fzoos.messages.message import Arrays, Kind, Message

__all__ = ["Arrays", "Kind", "Message"]
