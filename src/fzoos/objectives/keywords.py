"""Whether an objective takes its variables by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["takes_keywords"]


def takes_keywords(objective: Callable[..., Any], names: tuple[str, ...]) -> bool:
    """Whether all variables are parameters of the objective, or it takes any keyword and nothing else.

    Example:
        >>> from fzoos.objectives.keywords import takes_keywords
        >>> takes_keywords(lambda rate, depth: rate * depth, ("rate", "depth")), takes_keywords(sum, ("rate", "depth"))
        (True, False)
    """
    try:
        parameters = inspect.signature(objective).parameters.values()
    except (TypeError, ValueError):
        return False
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    others = [p for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in names and p.default is p.empty]
    return not others and (set(names) <= by_name or anything)
