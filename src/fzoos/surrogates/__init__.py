"""Surrogates of an objective's gradient, learned from the queries already made."""
