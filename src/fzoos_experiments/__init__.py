"""The paper's tasks and figures and the language-model tasks; this package uses `fzoos`, never the reverse."""
