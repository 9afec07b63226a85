"""The helpers of the federation's tests serve here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "federation" / "helpers"))
