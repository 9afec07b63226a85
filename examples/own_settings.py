"""Settings are plain frozen records: change one, compare on a task whose minimum is known."""

from dataclasses import replace

from fzoos import Adam, FedZO, FiniteDifferences, FZooS, Matern52, Reciprocal, minimize
from fzoos.algorithms import Algorithm
from fzoos.tasks import Quadratic

task = Quadratic(dim=20, clients=3, heterogeneity=5.0, seed=0)
plain = FZooS()
settings: dict[str, Algorithm] = {
    "FedZO": FedZO(),
    "FedZO, 5 directions on the sphere": FedZO(differences=FiniteDifferences(count=5, directions="sphere")),
    "FZooS": plain,
    "FZooS, shorter length scale": replace(plain, kernel=Matern52(2.0)),
    "FZooS, correction length 1/t": replace(plain, length=Reciprocal()),
    "FZooS, the paper's": FZooS.paper(features=1_000),
}

print(f"F at x0: {task.value(task.x0):.4f}, smallest: {task.minimum:.4f}")
for name, algorithm in settings.items():
    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=algorithm,
        optimizer=Adam(0.02),
        rounds=6,
        vectorized=True,
        monitor=task.value,
        seed=0,
    )
    print(f"{name:34s} F = {result.history[-1].monitor:7.4f} after {result.queries:5d} queries")
