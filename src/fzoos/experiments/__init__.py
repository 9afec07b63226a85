"""The paper's experiments: what each figure is made of, how its runs are made and kept, and how it is drawn."""
