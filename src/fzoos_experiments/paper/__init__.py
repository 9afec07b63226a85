"""The figures of the paper: their runs, which are made once and stored, and their plots and tables."""
