"""Source of a kernel: its lines under construction, the variables of an element, and the compilation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType
from typing import Any

import attrs


class Lines:
    """A function under construction.

    Attributes:
      text: the lines.
      about: for each line, its operation's index (-1 for none) and the variable of its input.
      depth: the indentation of the next line.
      operation, input: the operation of the next line, and the variable of its input.
      bound: globals that the loop uses, as parameters with a default, because a local variable is read faster.
      before: the lines before the loop, each with its operation and input.
    """

    def __init__(self) -> None:
        self.text: list[str] = []
        self.about: list[tuple[int, str]] = []
        self.depth = 0
        self.operation = -1
        self.input = "v0"
        self.bound: dict[str, None] = {}
        self.before: list[tuple[str, tuple[int, str]]] = []

    def line(self, code: str) -> None:
        """Write a line."""
        self.text.append("    " * self.depth + code)
        self.about.append((self.operation, self.input))

    # Errors on lines that emit bundles are those of the receiver.
    @contextmanager
    def about_nothing(self) -> Iterator[None]:
        """Write lines that belong to no operation."""
        operation, self.operation = self.operation, -1
        yield
        self.operation = operation

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write a header, and indent the following lines."""
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1

    def bind(self, name: str) -> str:
        """Make a global a parameter; return its name."""
        self.bound[f"{name}={name}"] = None
        return name

    def before_loop(self, *codes: str) -> None:
        """Add lines before the loop, each of them once."""
        for code in codes:
            if all(code != known for known, _ in self.before):
                self.before.append((code, (self.operation, self.input)))


@attrs.define
class Columns:
    """The variables of an element's columns at one point of the stage.

    Attributes:
      t, w, p, s: its timestamp, windows, pane and sign.
      varying: the variables that vary from element to element.
      one_window: True if `w` is known to be a single window.
      bucket: the bucket that decides the window, and the operation that assigned it, where the fold finds its
        cells by the bucket.
      gap: set by Sessions: windows are [t, t + gap).
    """

    t: str
    w: str
    p: str
    s: str
    varying: set[str]
    one_window: bool
    bucket: tuple[str, int] | None = None
    gap: int | None = None

    @property
    def all(self) -> str:
        """Return all four, separated by commas."""
        return f"{self.t}, {self.w}, {self.p}, {self.s}"

    def timestamp_in(self, t: str) -> None:
        """Use another variable for the timestamp."""
        self.t = t
        self.varying.add(t)
        self.bucket = self.gap = None


def unshare(out: Lines, value: str) -> None:
    """Write the copy of an output that a function may change later; tuples of immutable values stay as they are."""
    immutable = out.bind("IMMUTABLE")
    with out.block(f"if type({value}) not in {immutable}:"):
        is_tuple, each = f"if type({value}) is tuple:", f"for part in {value}:"
        with out.block(is_tuple), out.block(each), out.block(f"if type(part) not in {immutable}:"):
            out.line(f"{value} = unshared({value})")
            out.line("break")
        with out.block("else:"):
            out.line(f"{value} = unshared({value})")


def function(source: str, names: dict[str, Any], file: str = "<penstock kernel>") -> Callable[..., Any]:
    """Return the function `run` that some source defines.

    Args:
      names: its globals.
      file: its file in tracebacks.

    >>> function("def run(x): return x + y", {"y": 1})(2)
    3
    """
    exec(_compiled(source), names)
    run: Callable[..., Any] = names["run"]
    run.__code__ = run.__code__.replace(co_filename=file)
    return run


# Long pipelines have many kernels with the same source.
@lru_cache(maxsize=256)
def _compiled(source: str) -> CodeType:
    return compile(source, "<penstock kernel>", "exec")
