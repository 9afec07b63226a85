"""Change settings, which are frozen dataclasses, and compare them on a task whose minimum is known."""

from dataclasses import replace

from fzoos import Adam, Auto, FedZO, FiniteDifferences, FZooS, Matern52, Measured, minimize
from fzoos.algorithms import Algorithm
from fzoos_experiments.tasks import Quadratic

task = Quadratic(dim=20, clients=3, heterogeneity=5.0, seed=0)
paper = FZooS(optimizer=Adam(0.02), features=1_000, points=150, feature_points=500)
settings: dict[str, Algorithm] = {
    "FedZO": FedZO(optimizer=Adam(0.02)),
    "FedZO, 5 directions on the sphere": FedZO(
        optimizer=Adam(0.02), differences=FiniteDifferences(count=5, directions="sphere")
    ),
    "FZooS": paper,
    "FZooS, measured correction length": replace(paper, length=Measured()),
    "FZooS, another kernel": replace(paper, kernel=Matern52(2.0)),
    "the default": Auto(),
}

print(f"F at x0: {task.value(task.x0):.4f}, smallest: {task.minimum:.4f}")
for name, algorithm in settings.items():
    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=algorithm,
        rounds=100,
        max_queries=1500,
        vectorized=True,
        monitor=task.value,
        rng=0,
    )
    print(f"{name:34s} F = {result.history[-1].monitor:7.4f} after {result.queries:5d} queries")
