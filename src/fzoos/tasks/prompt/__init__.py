"""Federated black-box prompt tuning of a language model: `Prompt` is the task."""

from fzoos.tasks.prompt.llama import Llama
from fzoos.tasks.prompt.model_file import LlamaSizes, ModelFile, ModelFileError, find_model
from fzoos.tasks.prompt.task import Answer, Prompt
from fzoos.tasks.prompt.texts import Texts, deal, load_texts

__all__ = [
    "Answer",
    "Llama",
    "LlamaSizes",
    "ModelFile",
    "ModelFileError",
    "Prompt",
    "Texts",
    "deal",
    "find_model",
    "load_texts",
]
