"""Runs that are kept: written, read, compared, exported, drawn and followed in a browser."""
