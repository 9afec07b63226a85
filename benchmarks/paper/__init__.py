"""The paper's comparison: the quadratic, and the numbers behind docs/results."""
