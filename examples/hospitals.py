"""Three hospitals tune the hyper-parameters of one model; no patient's record leaves a hospital.

Each hospital trains a support vector machine on some of its patients and evaluates it on others. The hyper-parameters
are two orders of magnitude, a whole number and a choice. The losses do not leave the hospital either; the last line
prints how many bytes do.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fzoos import Choice, Integer, Log, Space, minimize
from fzoos.objectives.box import Objective

records, benign = load_breast_cancer(return_X_y=True)
shares = np.split(np.random.default_rng(0).permutation(len(benign)), [300, 450])  # 300, 150 and 119 patients
space = Space(
    C=Log(1e-3, 1e3),
    gamma=Log(1e-5, 10.0),
    components=Integer(1, 20),  # of the principal components that the model sees
    kernel=Choice("sigmoid", "rbf", "linear"),
)


def hospital(share: NDArray[np.int64]) -> Objective:
    """Return a hospital's validation loss as a function of the hyper-parameters."""
    train_x, test_x, train_y, test_y = train_test_split(
        records[share], benign[share], test_size=0.4, stratify=benign[share], random_state=0
    )

    def loss(C: float, gamma: float, components: int, kernel: str) -> float:
        machine = make_pipeline(StandardScaler(), PCA(components, random_state=0), SVC(C=C, gamma=gamma, kernel=kernel))
        margins = (2 * test_y - 1) * machine.fit(train_x, train_y).decision_function(test_x)
        return float(np.mean(np.logaddexp(0.0, -margins)))

    return loss


hospitals = [hospital(share) for share in shares]
start = {"C": 0.01, "gamma": 1e-4, "components": 2, "kernel": "sigmoid"}
result = minimize(hospitals, start, bounds=space, rounds=12, rng=0)
assert result.variables is not None
for name, values in (("at the start", start), ("together", result.variables)):
    losses = [loss(**values) for loss in hospitals]
    print(f"{name:12s} mean loss {np.mean(losses):.4f} {np.round(losses, 3)}", values)
print(f"{result.queries} models trained, {result.bytes_up} bytes up, {result.bytes_down} bytes down")
