"""Helpers that know nothing of optimisation: arrays, checks, SQLite, locks, BLAS threads."""
