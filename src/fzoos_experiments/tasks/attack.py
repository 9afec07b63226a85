"""Federated black-box adversarial attack: a small perturbation of an image that the clients' models misclassify.

=========  ===================  =====================================================================================
symbol     shape                meaning
=========  ===================  =====================================================================================
N, K, d    scalar               clients, classes, dimension: the pixels of one channel
z          (side, side, chan.)  the image, scaled for the models
x          (d,)                 the perturbation, within +-radius; x_0 = 0
l_i        (K,)                 logits of client i's model at the perturbed image
f_i        scalar               margin of client i: logit of the true class minus the largest other logit
F          scalar               the objective, the mean of f_i
=========  ===================  =====================================================================================

The perturbed image is clip(z + x, low, high), where x is added to every channel. An attack has succeeded when the
averaged logits, sum_i l_i / N, misclassify the image, that is when *their* margin is below zero. F is at most this
margin, because the largest other logit is chosen per client before averaging: F < 0 is the weaker rule, which the other
rule implies.

Reference:
    Shu et al., "Federated zeroth-order optimization using trajectory-informed surrogate gradients". Deviation: it draws
    images that every model classifies correctly. With P < 1 there are none, because no model knows all classes; here
    images are drawn among those that the averaged logits classify correctly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fzoos._util.arrays import FloatArray, check_device
from fzoos._util.checks import check_count, check_positive
from fzoos.objectives.box import BatchObjective
from fzoos_experiments.tasks.clients import CLASSES, ClientModel, Pixels, WeakModelError, client_models
from fzoos_experiments.tasks.data import Images, load_cifar10, load_mnist
from fzoos_experiments.tasks.display import Shown
from fzoos_experiments.tasks.models import Module, Recipe, Tensor, logits, torch
from fzoos_experiments.tasks.split import Split, check_split, classes_per_client

__all__ = ["DATASETS", "Attack", "Attacks", "Dataset", "WeakModelError"]

_BATCH = 64  # test images
_GREY = Pixels()  # one channel, 0..1


@dataclass(frozen=True, eq=False)
class Attack:
    """The attack on one image: pass `objectives`, `x0` and `bounds` to `minimize` with `vectorized=True`.

    Args:
        models: the clients' models, images (n, channels, side, side) to logits (n, K); on `device`, in evaluation mode.
            On a CPU, convolutional ones may be faster after `model.to(memory_format=torch.channels_last)`.
        image: z, shape (channels, side, side).
        label: the image's class.
        radius: the largest perturbation of a pixel: x is within +-radius.
        pixels: the scaling of pixels, which gives the range of the perturbed image.
        device: the device of the models.

    Example:
        >>> import numpy as np
        >>> from torch import nn
        >>> from fzoos import FedZO, minimize
        >>> from fzoos_experiments.tasks.attack import Attack
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        >>> model[1].weight.data[:] = nn.Parameter(1.0 * model[1].weight.new_tensor([[1, 0, 0, 0], [0, 1, 0, 0]]))
        >>> model[1].bias.data[:] = 0.0
        >>> task = Attack([model], image=np.full((1, 2, 2), 0.5), label=0, radius=0.25)
        >>> task.objectives[0](np.array([[0.25, 0.0, 0.0, 0.0], [0.0, 0.125, 0.0, 0.0]]))   # logits: the first pixels
        array([ 0.25 , -0.125])
        >>> result = minimize(task.objectives, task.x0, bounds=task.bounds, algorithm=FedZO(), rounds=5, seed=0,
        ...                   vectorized=True, monitor=task.value)
        >>> task.attacked(result.x)
        True
    """

    models: Sequence[Module]
    image: FloatArray
    label: int
    radius: float
    pixels: Pixels = _GREY
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_device(self.device)
        check_count("label", self.label)
        check_positive("radius", self.radius)
        if np.ndim(self.image) != 3 or len(self.image) != len(self.pixels.mean):
            expected = f"({len(self.pixels.mean)}, height, width)"
            raise ValueError(f"image must have shape {expected}, got {np.shape(self.image)}")
        if not len(self.models):
            raise ValueError("models is empty: at least one client is needed")

    @property
    def dim(self) -> int:
        """d, the number of variables."""
        return int(np.prod(self.image.shape[1:]))

    @property
    def bounds(self) -> tuple[float, float]:
        """The box (-radius, radius) of every pixel."""
        return -self.radius, self.radius

    @property
    def x0(self) -> FloatArray:
        """The unperturbed image, x = 0."""
        return np.zeros(self.dim)

    @cached_property
    def objectives(self) -> tuple[BatchObjective, ...]:
        """f_i, each (n, d) -> (n,), with one forward pass for all n."""
        return tuple(self._objective(model) for model in self.models)

    def logits(self, x: FloatArray) -> FloatArray:
        """The logits l_i of all clients at one perturbation, shape (N, K)."""
        image = self._perturbed(np.atleast_2d(x))
        with torch.no_grad():
            found: FloatArray = torch.cat([model(image) for model in self.models]).double().cpu().numpy()
        return found

    def value(self, x: FloatArray) -> float:
        """F(x), the mean of f_i; below zero the attack has succeeded by the weaker rule."""
        return float(np.mean(_margin(self.logits(x), self.label)))

    def margin(self, x: FloatArray) -> float:
        """The margin of the averaged logits; below zero the attack has succeeded."""
        return float(_margin(np.mean(self.logits(x), axis=0), self.label))

    def attacked(self, x: FloatArray) -> bool:
        """Whether the averaged logits misclassify the perturbed image."""
        return self.margin(x) < 0.0

    def _objective(self, model: Module) -> BatchObjective:
        def objective(x: FloatArray) -> FloatArray:
            with torch.no_grad():
                found: FloatArray = model(self._perturbed(x)).double().cpu().numpy()
            return _margin(found, self.label)

        return objective

    def _perturbed(self, x: FloatArray) -> Tensor:
        """clip(z + x, low, high), (n, d) -> (n, channels, height, width)."""
        image, low, high = self._tensors
        moved = torch.as_tensor(x, dtype=torch.float32, device=self.device).view(len(x), 1, *image.shape[1:])
        return torch.clamp(image + moved, low, high)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """z, low and high, on the device."""
        arrays = self.image, np.reshape(self.pixels.low, (-1, 1, 1)), np.reshape(self.pixels.high, (-1, 1, 1))
        image, low, high = (torch.as_tensor(a, dtype=torch.float32, device=self.device) for a in arrays)
        return image, low, high


def _margin(values: FloatArray, label: int) -> FloatArray:
    """Logit of the class minus the largest other, (..., K) -> (...)."""
    others: FloatArray = np.delete(values, label, axis=-1).max(axis=-1)
    return values[..., label] - others


@dataclass(frozen=True)
class Dataset:
    """A dataset of images, and the default settings of attacks on it."""

    load: Callable[[str | Path | None], Images]
    pixels: Pixels
    radius: float
    recipe: Recipe
    quick: Recipe  # takes minutes on two cores


DATASETS = {
    "mnist": Dataset(
        load_mnist,
        Pixels(),
        radius=0.3,
        recipe=Recipe("cnn", width=16, epochs=5),
        quick=Recipe("cnn", width=8, epochs=3, samples=20_000, min_accuracy=0.8),
    ),
    "cifar10": Dataset(
        load_cifar10,
        Pixels((0.49139968, 0.48215841, 0.44653091), (0.24703223, 0.24348513, 0.26158784)),
        radius=0.1,
        recipe=Recipe("resnet18", width=64, epochs=30, learning_rate=2e-3, augment=True, min_accuracy=0.5),
        quick=Recipe("resnet18", width=8, epochs=4, learning_rate=5e-3, samples=10_000, min_accuracy=0.3),
    ),
}
"""The datasets by their names on the command line."""


class Attacks:
    """The attacks on some images of a dataset, by clients that each know a portion of the classes.

    The constructor trains the models (or reads them from the cache) and draws the images at random among the test
    images that the averaged logits classify correctly. `attacks[i]` is the `Attack` on the i-th image.

    Args:
        dataset: "mnist" or "cifar10".
        portion: P, in (0, 1], the share of the classes that a client's model is trained on.
        images: the number of images.
        clients: N, the number of clients.
        seed: the seed of the split, the training and the draw of images.
        split: "divided", as in the authors' program: the samples of a class are divided among its clients; "whole", as
            in the paper's text: each of these clients has all samples.
        device: "cpu" or "cuda". On CUDA, cuDNN is set to deterministic algorithms, and convolutions round to TF32, in
            training and in queries.
        recipe: the network and its training; default: the dataset's.
        data: images to use instead of the dataset's.
        progress: whether a progress bar and the accuracy of each model are shown on standard output, or the console
            that shows them.

    Raises:
        DataError: the dataset is missing and cannot be downloaded.
        WeakModelError: a model is less accurate than the recipe's `min_accuracy`.

    Example:
        >>> from fzoos_experiments.tasks.attack import Attacks
        >>> from fzoos import minimize
        >>> def rounds_needed(algorithm):                # trains ten models the first time: about a minute
        ...     for task in Attacks("mnist", portion=0.7, progress=True):
        ...         result = minimize(task.objectives, task.x0, bounds=task.bounds, algorithm=algorithm, seed=0,
        ...                           vectorized=True, monitor=task.margin, callback=lambda r: r.monitor < 0)
        ...         yield result.rounds, task.attacked(result.x)
    """

    def __init__(
        self,
        dataset: str = "mnist",
        portion: float = 0.7,
        *,
        images: int = 15,
        clients: int = 10,
        seed: int = 0,
        split: Split = "divided",
        device: str = "cpu",
        recipe: Recipe | None = None,
        data: Images | None = None,
        progress: Shown = False,
    ) -> None:
        if dataset not in DATASETS:
            raise ValueError(f"dataset must be one of {', '.join(DATASETS)}, got {dataset!r}")
        check_device(device)
        check_count("images", images, low=1)
        check_count("clients", clients, low=1)
        check_count("seed", seed)
        classes_per_client(CLASSES, portion)
        check_split(split)
        if device != "cpu":
            torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = True, True
        self.dataset, self._kind, self._device = dataset, DATASETS[dataset], device
        self._data = self._kind.load(None) if data is None else data
        self.clients: tuple[ClientModel, ...] = tuple(
            client_models(
                self._data,
                recipe or self._kind.recipe,
                self._kind.pixels,
                clients=clients,
                portion=portion,
                seed=seed,
                split=split,
                device=device,
                progress=progress,
            )
        )
        self.indices: tuple[int, ...] = tuple(self._draw(images, np.random.default_rng([seed, 2])))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, i: int) -> Attack:
        index = self.indices[i]
        image = self._kind.pixels.tensor(self._data.x_test[[index]])[0].double().numpy()
        label = int(self._data.y_test[index])
        return Attack(self._models, image, label, self._kind.radius, self._kind.pixels, self._device)

    def __iter__(self) -> Iterator[Attack]:
        return (self[i] for i in range(len(self)))

    @property
    def accuracies(self) -> tuple[float, ...]:
        """The accuracy of each client's model on test images of its classes."""
        return tuple(client.accuracy for client in self.clients)

    @cached_property
    def _models(self) -> tuple[Module, ...]:
        return tuple(client.model for client in self.clients)

    def _draw(self, images: int, rng: np.random.Generator) -> list[int]:
        """Draw random test images that the averaged logits classify correctly."""
        found: list[int] = []
        order = rng.permutation(len(self._data.y_test))
        for start in range(0, len(order), _BATCH):
            some = order[start : start + _BATCH]
            x = self._kind.pixels.tensor(self._data.x_test[some], self._device)
            averaged = sum(logits(model, x).double() for model in self._models).cpu().numpy()
            found += some[averaged.argmax(axis=1) == self._data.y_test[some]].tolist()
            if len(found) >= images:
                return found[:images]
        raise WeakModelError(
            f"images is {images} but the averaged logits get only {len(found)} of {len(order)} test images right"
        )
