"""This site's private black box: its own texts, asked of its own copy of the model, which runs in this process.

A site has its texts in texts/SITE/debian.npz, in the layout of docs/prompt.md. Instruction, classes and seed are those
of the study: they make the prompt that a point stands for, and must be the same everywhere.
"""

import os
from pathlib import Path

from fzoos_experiments.tasks.prompt import Prompt, load_texts

texts = load_texts(Path(__file__).parent / "texts" / os.environ["SITE"])
task = Prompt(dim=10, clients=1, texts=len(texts.text), test=0, data=texts)
objective = task.objectives[0]
