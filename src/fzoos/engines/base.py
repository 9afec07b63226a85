"""The one thing an engine does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fzoos.federation.message import Message

__all__ = ["Engine"]


class Engine(Protocol):
    """Carries requests to clients and brings their replies back."""

    def exchange(self, requests: Mapping[int, Message]) -> dict[int, Message]:
        """Send each client, by index, its request; return the replies."""
        ...
