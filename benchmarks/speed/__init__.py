"""How fast: a round, a local step, objectives, a GPU, BLAS threads."""
