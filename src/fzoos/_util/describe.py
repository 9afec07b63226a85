"""Settings as plain values, for files."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["describe"]


def describe(value: Any) -> Any:
    """Settings as plain JSON: a dataclass becomes its name and fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {f.name: describe(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(name): describe(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
