"""Beyond the paper: all numbers of docs/beyond.md."""
