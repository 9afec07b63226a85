"""Federated black-box prompt tuning of a language model: `Prompt` is the task."""

from fzoos_experiments.tasks.prompt.llama import Llama
from fzoos_experiments.tasks.prompt.model_file import LlamaSizes, ModelFile, ModelFileError, find_model
from fzoos_experiments.tasks.prompt.task import Answer, Prompt
from fzoos_experiments.tasks.prompt.texts import Texts, load_texts, split_texts

__all__ = [
    "Answer",
    "Llama",
    "LlamaSizes",
    "ModelFile",
    "ModelFileError",
    "Prompt",
    "Texts",
    "find_model",
    "load_texts",
    "split_texts",
]
