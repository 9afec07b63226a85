"""Every rival at its best, at equal queries, and the price of federation."""
