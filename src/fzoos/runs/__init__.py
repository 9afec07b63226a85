"""Stored runs: written, read, compared, exported, plotted and shown live in a browser."""
