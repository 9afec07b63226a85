"""For the API reference: makes of our docstrings and defaults what its reader understands."""

import re
from typing import Any

import griffe


class Readable(griffe.Extension):
    """Examples become sections, and defaults are shown as they are, not as functions that make them."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Our docstrings say "Example:", where the reader of Google-style docstrings knows "Examples:"."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        """field(default_factory=lambda: Matern52(8.0)) is shown as Matern52(8.0)."""
        if isinstance(attr.value, griffe.ExprCall) and str(attr.value.function) == "field":
            for argument in attr.value.arguments:
                if isinstance(argument, griffe.ExprKeyword) and isinstance(argument.value, griffe.ExprLambda):
                    attr.value = argument.value.body
