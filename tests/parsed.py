"""The code as trees: each file is parsed once, however many tests look at it."""

import ast
import functools
import gc


@functools.cache
def tree_of(path):
    """Return what a Python file holds. Nobody changes it."""
    text = path.read_text(encoding="utf-8")
    gc.disable()  # it would look at all other trees again and again: that takes longer than to parse them
    try:
        return ast.parse(text)
    finally:
        gc.enable()
