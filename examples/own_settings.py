"""FZooS has no settings; those of others are plain frozen records: change one, compare on a task of known minimum."""

from dataclasses import replace

from fzoos import Adam, FedZO, FiniteDifferences, FixedFZooS, FZooS, Matern52, Reciprocal, minimize
from fzoos.algorithms import Algorithm
from fzoos.tasks import Quadratic

task = Quadratic(dim=20, clients=3, heterogeneity=5.0, seed=0)
fixed = FixedFZooS()
settings: dict[str, Algorithm] = {
    "FedZO": FedZO(),
    "FedZO, 5 directions on the sphere": FedZO(differences=FiniteDifferences(count=5, directions="sphere")),
    "FZooS": FZooS(),
    "FixedFZooS, shorter length scale": replace(fixed, kernel=Matern52(2.0)),
    "FixedFZooS, correction length 1/t": replace(fixed, length=Reciprocal()),
    "FixedFZooS, the paper's": FZooS.paper(features=1_000),
}

print(f"F at x0: {task.value(task.x0):.4f}, smallest: {task.minimum:.4f}")
for name, algorithm in settings.items():
    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=algorithm,
        optimizer=Adam(0.02),
        rounds=100,
        max_queries=1500,
        vectorized=True,
        monitor=task.value,
        seed=0,
    )
    print(f"{name:34s} F = {result.history[-1].monitor:7.4f} after {result.queries:5d} queries")
