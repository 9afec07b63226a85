"""Engines carry the messages: this process, NVIDIA FLARE (`fzoos.engines.flare`) or Flower (`fzoos.engines.flower`)."""

from fzoos._util.lazy_package import load_on_use

load_on_use(__name__)
