"""The numbers of docs/beyond.md and docs/rivals.md.

    python -m benchmarks.beyond tune|rivals|moved|price|ablation|constraints [--only TEXT] [--tables] [--page FILE]

Without options a command makes the runs that are missing. `--only` makes those with TEXT in their names (a regular
expression), `--tables` makes none, `--page` writes the tables into a page.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.beyond import constraints
from benchmarks.beyond.fair import ablation, compare, moved, price, tune

COMMANDS = {
    "tune": tune.main,
    "rivals": compare.main,
    "moved": moved.main,
    "price": price.main,
    "ablation": ablation.main,
    "constraints": constraints.main,
}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=list(COMMANDS))
    given = parser.parse_args(sys.argv[1:2])
    return COMMANDS[given.command](sys.argv[2:])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command makes the runs that are missing")
