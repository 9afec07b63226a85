"""This site's private black box: replace it with yours. It takes x of shape (d,) and returns one number, the loss.

The example is a batch reactor in which A becomes the product B, and B decays to C, as a function of temperature and
time. Every site has its own private catalyst.
"""

import os
import time

import numpy as np

ACTIVITY = {"site-1": 0.8, "site-2": 1.0, "site-3": 1.3}.get(os.environ.get("SITE", ""), 1.0)


def objective(x):
    """Return the loss of product, between 0 and 1, after `minutes` at `kelvin`."""
    kelvin, minutes = x
    time.sleep(0.05)  # an experiment takes its time
    k1 = ACTIVITY * 0.10 * np.exp(6000.0 * (1 / 350.0 - 1 / kelvin))  # A -> B, per minute
    k2 = 0.01 * np.exp(9000.0 * (1 / 350.0 - 1 / kelvin))  # B -> C
    product = k1 / (k2 - k1) * (np.exp(-k1 * minutes) - np.exp(-k2 * minutes))
    return 1.0 - product
