"""Engines carry the messages: this process, NVIDIA FLARE (`fzoos.engines.flare`) or Flower (`fzoos.engines.flower`)."""

from typing import TYPE_CHECKING

from fzoos._util.lazy_package import load_on_use

if TYPE_CHECKING:
    from fzoos.engines.local import LocalEngine
    from fzoos.engines.local_study import LocalStudy

__all__ = ["LocalEngine", "LocalStudy"]

load_on_use(__name__, {"fzoos.engines.local": "LocalEngine", "fzoos.engines.local_study": "LocalStudy"})
