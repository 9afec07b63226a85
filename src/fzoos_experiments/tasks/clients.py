"""The clients' models: each is trained once on its own share of the data, and stored in the per-user cache.

The name of a model's file is a digest of the recipe, the split, the seed, the client and the data. The device is not
part of it: a model that was trained on a GPU can be used anywhere.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos.runs.progress import round_columns
from fzoos_experiments.tasks.cache import cache_folder, digest, fingerprint, read_archive, write_archive
from fzoos_experiments.tasks.data import Images
from fzoos_experiments.tasks.display import Shown, console_of
from fzoos_experiments.tasks.models import Module, Recipe, Tensor, accuracy, build, torch, train
from fzoos_experiments.tasks.replay import as_queried
from fzoos_experiments.tasks.split import Split, split_by_class

__all__ = ["CLASSES", "ClientModel", "Pixels", "WeakModelError", "client_models"]

CLASSES = 10
"""K, the number of classes of MNIST and of CIFAR-10."""

_FORMAT = 1  # incremented when networks or training change, so that older files are not used


class WeakModelError(ValueError):
    """A client's model is too weak to be worth attacking."""


class ClientModel(NamedTuple):
    """A trained model, its classes, and its accuracy on test images of these classes."""

    model: Module
    classes: tuple[int, ...]
    accuracy: float


@dataclass(frozen=True)
class Pixels:
    """The scaling of grey levels 0..255 to the input of a network, (x / 255 - mean) / std in each channel.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.clients import Pixels
        >>> pixels = Pixels(mean=(0.5,), std=(0.25,))
        >>> pixels.tensor(np.array([[[0, 255]]], np.uint8))
        tensor([[[[-2.,  2.]]]])
        >>> pixels.low, pixels.high
        ((-2.0,), (2.0,))
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @property
    def low(self) -> tuple[float, ...]:
        """The scaled value of grey level 0 in each channel."""
        return tuple(-m / s for m, s in zip(self.mean, self.std, strict=True))

    @property
    def high(self) -> tuple[float, ...]:
        """The scaled value of grey level 255 in each channel."""
        return tuple((1.0 - m) / s for m, s in zip(self.mean, self.std, strict=True))

    def tensor(self, x: NDArray[np.uint8], device: str = "cpu") -> Tensor:
        """Scale images (n, side, side) or (n, side, side, channels) to float32 (n, channels, side, side)."""
        channels = torch.as_tensor(x.reshape(*x.shape[:3], -1), device=device).permute(0, 3, 1, 2)
        mean, std = (torch.tensor(v, device=device).view(1, -1, 1, 1) for v in (self.mean, self.std))
        return ((channels.float() / 255.0 - mean) / std).contiguous()


def client_models(
    data: Images,
    recipe: Recipe,
    pixels: Pixels,
    *,
    clients: int,
    portion: float,
    seed: int,
    split: Split = "divided",
    device: str = "cpu",
    progress: Shown = False,
) -> list[ClientModel]:
    """Train the model of every client on its share of the data, or read it from the cache.

    Args:
        data: images; the training images are split by class, the test images measure accuracy.
        recipe: the network and its training.
        pixels: how images are scaled.
        clients: N, the number of clients.
        portion: P, the share of the classes that a client has.
        seed: the seed of the split, the weights and the training.
        split: as in `split_by_class`. With "whole", clients with the same classes have the same model.
        device: "cpu" or "cuda".
        progress: whether a progress bar and the accuracy of each model are shown on standard output, or the console
            that shows them.

    Raises:
        WeakModelError: a model is less accurate than the recipe's `min_accuracy`.
    """
    data = data._replace(x_train=data.x_train[: recipe.samples], y_train=data.y_train[: recipe.samples])
    training = {name: value for name, value in asdict(recipe).items() if name != "min_accuracy"}
    common = {"format": _FORMAT, "recipe": training, "pixels": asdict(pixels), "data": digest(*data)}
    common |= {"clients": clients, "portion": float(portion), "seed": int(seed)}
    common |= {} if split == "divided" else {"split": split}
    found = []
    console = console_of(progress)
    with round_columns(console) as bars:
        bar = bars.add_task("training", total=clients * recipe.epochs, status="epochs")
        for i, share in enumerate(split_by_class(data.y_train, clients, portion, seed, split)):
            settings = common | {"client": i}
            path = cache_folder("models") / f"{recipe.network}-{fingerprint(settings)}.npz"
            entropy = [seed, i] if split == "divided" else [seed]
            weights, order = (int(n) for n in np.random.SeedSequence(entropy).generate_state(2))
            model = build(recipe, len(pixels.mean), data.x_train.shape[1], CLASSES, weights).to(device)
            known = np.unique(data.y_train[share])
            reached = _restore(path, model)
            if reached is None:
                sample = _sample(data.x_train, data.y_train, share, pixels, device)
                train(model, *sample, recipe, order, partial(bars.advance, bar))
                tested = np.flatnonzero(np.isin(data.y_test, known))
                reached = accuracy(model, *_sample(data.x_test, data.y_test, tested, pixels, device))
                _store(path, model, reached, settings)
            found.append(ClientModel(as_queried(model, device), tuple(known.tolist()), reached))
            names = " ".join(map(str, known))
            console.print(f"client {i}: accuracy {reached:.3f} on classes {names}", highlight=False)
            bars.update(bar, completed=(i + 1) * recipe.epochs)
            _check_accuracy(i, reached, recipe.min_accuracy)
    return found


def _sample(
    x: NDArray[np.uint8], y: NDArray[np.uint8], chosen: NDArray[np.intp], pixels: Pixels, device: str
) -> tuple[Tensor, Tensor]:
    return pixels.tensor(x[chosen], device), torch.as_tensor(y[chosen].astype(np.int64), device=device)


def _check_accuracy(client: int, reached: float, least: float) -> None:
    if not reached >= least:  # not a number: there was nothing to test it on
        raise WeakModelError(
            f"the model of client {client} has accuracy {reached:.3f} on the classes it knows, too weak to be worth "
            f"attacking (min_accuracy is {least:g}): train it longer or on more images"
        )


def _store(path: Path, model: Module, reached: float, settings: dict[str, Any]) -> None:
    arrays = {f"weights/{name}": value.cpu().numpy() for name, value in model.state_dict().items()}
    notes = {"accuracy": np.array(reached), "settings": np.array(json.dumps(settings))}
    write_archive(path, arrays | notes)


def _restore(path: Path, model: Module) -> float | None:
    """Load the weights of an earlier training and return its accuracy; None if there is no readable file."""
    try:
        arrays = read_archive(path)
        weights = {name: torch.as_tensor(arrays[f"weights/{name}"]) for name in model.state_dict()}
        model.load_state_dict(weights)
        return float(arrays["accuracy"])
    except (OSError, ValueError, KeyError, RuntimeError):
        return None
