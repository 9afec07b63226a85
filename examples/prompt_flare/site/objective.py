"""The site's private black box: its own texts and its own copy of the model, which runs in this process.

The texts of a site are in texts/SITE/debian.npz, in the format of docs/prompt.md. Instruction, classes and seed are
those of the study: they define the prompt of a point, and must be the same at all sites.
"""

import os
from pathlib import Path

from fzoos_experiments.tasks.prompt import Prompt, load_texts

texts = load_texts(Path(__file__).parent / "texts" / os.environ["SITE"])
task = Prompt(dim=10, clients=1, texts=len(texts.text), test=0, data=texts)
objective = task.objectives[0]
