"""How large the experiments are: as in the paper, or the same pipeline in minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fzoos._util.arrays import check_device_name
from fzoos._util.checks import check_count

__all__ = ["Scale"]


@dataclass(frozen=True)
class Scale:
    """How large the experiments are.

    Args:
        quick: the same pipeline with small tasks and few rounds.
        seeds: repetitions; None: 5 (quick: 2), and 1 for the attacks, whose error is over images, as in the paper.
        device: where the networks of the attack and metric tasks run, and FZooS' surrogates for them.
        rounds: R in place of the figure's own.
        samples: rows of Covertype in place of all of them.
    """

    quick: bool = False
    seeds: int | None = None
    device: str = "cpu"
    rounds: int | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_count("seeds", self.seeds, low=1)
        for name in ("rounds", "samples"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), low=1)
        check_device_name(self.device)

    def pick_rounds(self, full: int, quick: int) -> int:
        """R, the number of rounds."""
        return int(self.pick(full, quick)) if self.rounds is None else self.rounds

    def repetitions(self, full: int = 5, quick: int = 2) -> range:
        """The seeds."""
        return range(self.pick(full, quick) if self.seeds is None else self.seeds)

    def pick(self, full: Any, quick: Any) -> Any:
        """One of the two."""
        return quick if self.quick else full

    @property
    def features(self) -> int:
        """M, the number of random features."""
        return int(self.pick(10_000, 500))

    @property
    def surrogates(self) -> str | None:
        """Where FZooS' surrogates are: NumPy, save on a GPU."""
        return None if self.device == "cpu" else self.device
