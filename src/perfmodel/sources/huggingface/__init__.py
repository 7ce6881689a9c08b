"""Reads a Hugging Face ``config.json``: one function a family, from its keys to layers.

A family that is not listed is refused by name; a default is the one of the class that the
config is made for, named beside it. Nothing is guessed, and no code of a checkpoint runs.
"""

from perfmodel.sources.huggingface.reader import read_hf, read_precision

__all__ = ["read_hf", "read_precision"]
