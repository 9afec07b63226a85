"""Three clients search a small change of an image that makes their models misclassify it.

Each client has a private model of handwritten digits that knows only 7 of the 10 digits. Its objective is the margin by
which its model prefers the right digit. The run stops when the average of the models is wrong.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

from fzoos import Auto, FedZO, Record, minimize
from fzoos_experiments.tasks.attack import Attack
from fzoos_experiments.tasks.models import Module
from fzoos_experiments.tasks.split import split_by_class

digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]  # 8 x 8 pixels between 0 and 1
labels = torch.tensor(digits.target)
TRAINED_ON, IMAGE, RADIUS = 1500, 1503, 0.2


def train(own: NDArray[np.int64]) -> Module:
    """Train a small network on a client's own images."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[own]), labels[own]).backward()
        optimizer.step()
    return model.eval()


def misread(record: Record) -> bool:
    """Return whether the average of the models is wrong; the monitor is its margin."""
    return record.monitor is not None and record.monitor < 0


models = [train(own) for own in split_by_class(digits.target[:TRAINED_ON], clients=3, portion=0.7, seed=0)]
task = Attack(models, images[IMAGE].double().numpy(), int(labels[IMAGE]), radius=RADIUS)
print(f"a {task.label}, by a margin of {task.margin(task.x0):.2f}")
for algorithm in (FedZO(), Auto().at(dim=64)):  # 64 pixels: FedLineSearch
    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=algorithm,
        rounds=20,
        vectorized=True,
        monitor=task.margin,
        callback=misread,
        rng=0,
    )
    read_as, change = task.logits(result.x).mean(axis=0).argmax(), abs(result.x).max()
    print(f"{algorithm.label}: {result.status} after {result.rounds} rounds and {result.queries} queries")
    print(f"  read as a {read_as}, margin {task.margin(result.x):.2f}, no pixel changed by more than {change:.2f}")
