"""How well and how fast: the numbers that README.md and docs/ show, each printed by a command here."""
