"""What every algorithm shares: messages, the client's loop, the server's loop, and studies across machines."""

from typing import Any

__all__ = ["LocalStudy", "Station", "Study", "conduct"]

_HOMES = {"LocalStudy": "local_study", "Station": "station", "Study": "study", "conduct": "conductor"}


def __getattr__(name: str) -> Any:
    """Found when asked for: the algorithms import messages from here before there are studies of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
