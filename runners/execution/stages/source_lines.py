"""The lines of a stage's function while they are written, and the variables that they may speak of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs


class Lines:
    """A function under construction.

    Attributes:
      text: the lines.
      about: of each of them, its operation's index (-1 for none) and the variable that holds its input.
      depth: how deep the next line is indented.
      operation, input: what the next line is about.
      bound: what the loop calls: parameters with a default, since a local variable is read faster.
      before: the lines that come before the loop, and what each is about.
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

    # Errors on lines that hand bundles on are those of whoever takes them.
    @contextmanager
    def about_nothing(self) -> Iterator[None]:
        """Write lines that are no operation's."""
        operation, self.operation = self.operation, -1
        yield
        self.operation = operation

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write a header, and indent what follows."""
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1

    def bind(self, name: str) -> str:
        """Have a global be a parameter; its name."""
        self.bound[f"{name}={name}"] = None
        return name

    def before_loop(self, *codes: str) -> None:
        """Have lines stand before the loop, each of them once."""
        for code in codes:
            if all(code != known for known, _ in self.before):
                self.before.append((code, (self.operation, self.input)))


@attrs.define
class Columns:
    """The variables that hold an element's columns at one point of the stage.

    Attributes:
      t, w, p, s: those of its timestamp, windows, pane and sign.
      varying: which of them vary from element to element.
      one_window: whether `w` is known to be a single window.
      bucket: the bucket that decides the window, and the operation that assigned it, where the fold finds its
        cells by that.
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
        """All four, one after the other."""
        return f"{self.t}, {self.w}, {self.p}, {self.s}"

    def timestamp_in(self, t: str) -> None:
        """From here on another variable holds the timestamp."""
        self.t = t
        self.varying.add(t)
        self.bucket = self.gap = None
