"""Result types of functions without annotations, inferred from their bytecode.

In reading order: results of operators and built-in functions (`calls`), the effect of an instruction on a stack of
types (`instructions`), and the execution of a function along all of its branches (`execution`).
"""

from .execution import infer_result

__all__ = ["infer_result"]
