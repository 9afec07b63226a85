"""Experiments: runs described, made once, kept and compared; and what each figure of the paper is made of."""
