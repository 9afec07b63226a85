"""Three hospitals tune one model's hyper-parameters together; no patient's record leaves a hospital.

Each hospital trains a support vector machine on some of its patients and measures it on others of them, for a pair of
hyper-parameters. Not even these losses leave the hospital: what its client sends is counted in the last line.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fzoos import ActiveQueries, Adam, FZooS, InitialDesign, minimize
from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import Objective

records, benign = load_breast_cancer(return_X_y=True)
shares = np.split(np.random.default_rng(0).permutation(len(benign)), [300, 450])  # 300, 150 and 119 patients


def hospital(share: NDArray[np.int64]) -> Objective:
    """A hospital's validation loss as a function of (log10 C, log10 gamma)."""
    train_x, test_x, train_y, test_y = train_test_split(
        records[share], benign[share], test_size=0.4, stratify=benign[share], random_state=0
    )

    def loss(x: FloatArray) -> float:
        machine = make_pipeline(StandardScaler(), SVC(C=10 ** x[0], gamma=10 ** x[1])).fit(train_x, train_y)
        margins = (2 * test_y - 1) * machine.decision_function(test_x)
        return float(np.mean(np.logaddexp(0.0, -margins)))

    return loss


hospitals = [hospital(share) for share in shares]
result = minimize(
    hospitals,
    x0=[-2.0, -4.0],
    bounds=[(-3.0, 3.0), (-5.0, 1.0)],
    algorithm=FZooS(
        initial=InitialDesign(10, 0.05),
        active=ActiveQueries(50, 1, 0.05),  # each query trains a model: ask for few
        refresh=ActiveQueries(50, 5, 0.05),
    ),
    optimizer=Adam(0.02),
    rounds=8,
    local_steps=5,
    seed=0,
)
for name, x in (("at the start", np.array([-2.0, -4.0])), ("together", result.x)):
    losses = [loss(x) for loss in hospitals]
    print(f"{name:12s} C = 10^{x[0]:.2f}, gamma = 10^{x[1]:.2f}, mean loss {np.mean(losses):.4f}", np.round(losses, 3))
print(f"{result.queries} models trained, {result.bytes_up} bytes up, {result.bytes_down} bytes down")
