"""The clients' networks and their training with PyTorch, on a CPU or a GPU.

Recipe, data and seed determine the weights (on the same machine, with the same versions and number of threads).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fzoos._util.checks import check_count, check_number, check_positive

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    raise ImportError("this task needs PyTorch: pip install 'fzoos[tasks]'") from None

__all__ = [
    "Module",
    "Network",
    "Recipe",
    "Residual",
    "Tensor",
    "accuracy",
    "build",
    "cnn",
    "logits",
    "nn",  # import it and torch from here, for the error message above
    "resnet18",
    "torch",
    "train",
]

Module = Any  # torch.nn.Module
Tensor = Any  # torch.Tensor
Network = Literal["cnn", "resnet18"]

_EVALUATED_AT_ONCE = 500  # images


@dataclass(frozen=True)
class Recipe:
    """The network of a client and its training: Adam on the cross-entropy, one cycle of the learning rate.

    Args:
        network: "cnn" or "resnet18".
        width: channels of the first convolution.
        epochs: passes over the client's images.
        batch: images per step.
        learning_rate: the highest rate of the cycle.
        augment: whether training images are shifted (by up to four pixels) and mirrored at random.
        samples: the number of training images that are split among the clients, from the first on; None: all.
        min_accuracy: the least accuracy, on test images of its classes, of a model that is worth attacking.

    Example:
        >>> from dataclasses import replace
        >>> from fzoos_experiments.tasks.models import Recipe
        >>> replace(Recipe(), epochs=2).epochs
        2
    """

    network: Network = "cnn"
    width: int = 16
    epochs: int = 5
    batch: int = 128
    learning_rate: float = 0.01
    augment: bool = False
    samples: int | None = None
    min_accuracy: float = 0.9

    def __post_init__(self) -> None:
        if self.network not in get_args(Network):
            raise ValueError(f"network must be one of {', '.join(get_args(Network))}, got {self.network!r}")
        check_count("width", self.width, low=1)
        check_count("epochs", self.epochs, low=1)
        check_count("batch", self.batch, low=1)
        check_positive("learning_rate", self.learning_rate)
        if self.samples is not None:
            check_count("samples", self.samples, low=1)
        check_number("min_accuracy", self.min_accuracy, 0.0, 1.0)


def cnn(channels: int, side: int, classes: int, width: int) -> Module:
    """Two convolutions (each followed by a pooling) and two dense layers.

    Args:
        channels: the number of channels of the image.
        side: pixels of the (square) image's side.
        classes: K, the number of logits.
        width: channels of the first convolution; the second has twice as many.
    """
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.MaxPool2d(2),  # before the ReLU, which is then on a quarter of the values; the result is the same
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * (side // 4) ** 2, 8 * width),
        nn.ReLU(),
        nn.Linear(8 * width, classes),
    )


class Residual(nn.Module):  # type: ignore[misc]
    """x -> relu(convolutions(x) + x), with a 1 x 1 convolution of x where the shapes differ."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
        )
        same = inside == outside and stride == 1
        self.shortcut = nn.Sequential() if same else _projection(inside, outside, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def _projection(inside: int, outside: int, stride: int) -> Module:
    return nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))


def resnet18(channels: int, classes: int, width: int = 64) -> Module:
    """ResNet-18 for small images: a 3 x 3 stem instead of 7 x 7, and no pooling before the blocks.

    Four stages of two residual blocks, of width, 2, 4 and 8 times width channels; each stage but the first halves the
    image.

    Example:
        >>> from fzoos_experiments.tasks.models import resnet18
        >>> sum(p.numel() for p in resnet18(channels=3, classes=10).parameters())
        11173962

    Reference:
        He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016, with the changes for CIFAR-10 that
        are usual since.
    """
    stem = [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    sizes = [width, width, 2 * width, 4 * width, 8 * width]
    blocks = []
    for stage in range(4):
        blocks.append(Residual(sizes[stage], sizes[stage + 1], stride=1 if stage == 0 else 2))
        blocks.append(Residual(sizes[stage + 1], sizes[stage + 1], stride=1))
    return nn.Sequential(*stem, *blocks, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(8 * width, classes))


def build(recipe: Recipe, channels: int, side: int, classes: int, seed: int) -> Module:
    """Make the network of a recipe with random weights; the global random state of PyTorch is unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if recipe.network == "cnn":
            return cnn(channels, side, classes, recipe.width).eval()
        return resnet18(channels, classes, recipe.width).eval()


def train(
    model: Module, x: Tensor, y: Tensor, recipe: Recipe, seed: int, on_epoch: Callable[[], None] = lambda: None
) -> None:
    """Train a model in place, then set it to evaluation mode.

    Args:
        model: the model, on the device of x and y.
        x: images, shape (n, channels, side, side).
        y: labels, shape (n,).
        recipe: epochs, batch size, learning rate and augmentation.
        seed: the seed of the order of images, and of the augmentation.
        on_epoch: called after each epoch.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
    steps = recipe.epochs * -(-len(x) // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.learning_rate, total_steps=max(steps, 2))
    model.train()
    for _ in range(recipe.epochs):
        for chosen in _batches(len(x), recipe.batch, generator):
            images = x[chosen.to(x.device)]
            if recipe.augment:
                images = _augment(images, generator)
            loss = F.cross_entropy(model(images), y[chosen.to(y.device)])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        on_epoch()
    model.eval()


def _batches(count: int, size: int, generator: Any) -> Iterator[Tensor]:
    yield from torch.randperm(count, generator=generator).split(size)


def _augment(images: Tensor, generator: Any, shift: int = 4) -> Tensor:
    """Mirror half of the images and shift each by up to `shift` pixels."""
    count, _, height, width = images.shape
    mirrored = torch.rand(count, generator=generator) < 0.5
    top, left = torch.randint(0, 2 * shift + 1, (2, count, 1), generator=generator)
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    padded = F.pad(images, (shift,) * 4)
    n, rows, columns = (i.to(images.device) for i in (torch.arange(count), rows, columns))
    # This indexing puts the channels last. They are moved first again: on CPUs without AVX-512 PyTorch 2.13 writes
    # beyond its memory in the backward pass of convolutions of fewer than eight channels that come last.
    return padded[n[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def logits(model: Module, x: Tensor) -> Tensor:
    """The logits of a model for many images, in batches of some hundreds, shape (n, classes)."""
    with torch.no_grad():
        return torch.cat([model(part) for part in x.split(_EVALUATED_AT_ONCE)])


def accuracy(model: Module, x: Tensor, y: Tensor) -> float:
    """The share of images that a model classifies correctly; not a number if there are no images."""
    if not len(x):
        return float("nan")
    return float((logits(model, x).argmax(1) == y).double().mean())
