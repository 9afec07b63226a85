"""Engines carry the messages: this process, NVIDIA FLARE (`fzoos.engines.flare`) or Flower (`fzoos.engines.flower`)."""

from fzoos.engines.local import LocalEngine
from fzoos.engines.local_study import LocalStudy

__all__ = ["LocalEngine", "LocalStudy"]
