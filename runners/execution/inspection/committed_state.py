"""Committed reads of a step's keyed state, while its job runs and after it has ended."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ....sdk.coders.coded_key import coded
from ....sdk.errors import AmbiguousStateError, SnapshotError, StateNotFoundError
from ..checkpoints.reader import SnapshotReader
from ..plan.fusion import Plan
from ..state.schema import shapes_of
from ..user_errors import shortened
from .entries import TIMER, StateEntry, StateReader
from .export import shown_window
from .keys import check_step, entries_of_key

T = TypeVar("T")

_MISSING: Any = object()

# The reads that may fail because a newer checkpoint has replaced theirs meanwhile.
_ATTEMPTS = 4


class StepState:
    """The keyed state of one step, as the newest complete checkpoint of the job has it.

    Each call reads the newest checkpoint: a value is what the step had when the barrier of that checkpoint passed it.
    Values are copies.  They are read from the checkpoint's files, so the job isn't interrupted.

    Args:
      store: the checkpoints of the job.
      step: the full label of the step.

    Attributes:
      step: as given.

    All methods raise `StateNotFoundError` if no checkpoint is complete yet, or if the step keeps no state.
    """

    def __init__(self, store: SnapshotReader, step: str) -> None:
        self._store = store
        self.step = step

    def __repr__(self) -> str:
        return f"StepState({self.step!r}, {self._store.directory!r})"

    @property
    def epoch(self) -> int:
        """The epoch of the newest complete checkpoint."""
        return self._reader().checkpoint.epoch

    def get(self, key: Any, default: Any = _MISSING, *, name: str | None = None, window: Any = _MISSING) -> Any:
        """Return the value of a key: the content of a state cell as its `read` returns it, or a window's accumulator.

        Args:
          key: the key.
          default: the value for a key without state; without it, that is an error.
          name: the name of the state; needed if the key has several.
          window: the window; needed if the key has state in several.

        Raises:
          StateNotFoundError: the key, or the key in that window or cell, has no state.
          AmbiguousStateError: the key has several cells or windows, which the error names.
        """
        found = self._read(lambda reader: self._values_of(reader, key, default is _MISSING))
        if not found:
            return default
        matching = [
            entry for entry in found if name in (None, entry.name) and (window is _MISSING or entry.window == window)
        ]
        if len(matching) == 1:
            return matching[0].value
        what = f"{self.step}: the key {shortened(key)}"
        if not matching:
            if default is not _MISSING:
                return default
            asked = (f" {name!r}" if name is not None else "") + ("" if window is _MISSING else f" in {window}")
            raise StateNotFoundError(f"{what} has no state{asked}; it has {_named(found)}")
        raise AmbiguousStateError(f"{what} has {_named(matching)}: choose one with name= or window=")

    def entries(self, key: Any = _MISSING) -> list[StateEntry]:
        """Return the entries of a key, or of all keys: state cells, windows and timers."""
        if key is _MISSING:
            return self._read(lambda reader: list(reader.entries(self.step)))
        return self._read(lambda reader: entries_of_key(reader, self.step, [coded(key)]))

    def keys(self) -> list[Any]:
        """Return the keys with any state, each once."""
        entries = self.entries()
        return list({coded(entry.key): entry.key for entry in entries}.values())

    def _values_of(self, reader: StateReader, key: Any, is_required: bool) -> list[StateEntry]:
        try:
            found = entries_of_key(reader, self.step, [coded(key)])
        except StateNotFoundError:
            if is_required:
                raise
            return []
        return [entry for entry in found if entry.kind != TIMER]

    def _read(self, read: Callable[[StateReader], T]) -> T:
        """Read from the newest checkpoint; again from a newer one if the retention removes it meanwhile."""
        for _ in range(_ATTEMPTS):
            with suppress(SnapshotError):
                return read(self._reader())
        return read(self._reader())

    def _reader(self) -> StateReader:
        if not self._store.checkpoints():
            raise StateNotFoundError(
                f"{self.step}: no checkpoint in {self._store.directory}: none is complete yet, or it was temporary, "
                "and was removed when the run ended. Wait for the first one, or give --checkpoint_dir to keep them"
            )
        reader = StateReader(self._store, self._store.select(), pickle.loads)
        check_step(reader, self.step)
        return reader


def state_of_step(store: SnapshotReader, plan: Plan, step: str) -> StepState:
    """Return the state of a step of a pipeline whose checkpoints are in a store.

    Raises `StateNotFoundError`, naming the steps with keyed state, for any other step.
    """
    shapes = shapes_of(plan)
    if step not in shapes:
        is_step = any(transform.label == step for transform in plan.graph.transforms)
        why = "keeps no keyed state" if is_step else "is no step of the pipeline"
        raise StateNotFoundError(f"{step!r} {why}. Steps with keyed state: {', '.join(map(repr, shapes)) or 'none'}")
    # Not the owner's object, whose thread is another one.
    return StepState(SnapshotReader(store.disk, store.directory, allow_untrusted=store.allow_untrusted), step)


def _named(entries: list[StateEntry]) -> str:
    """Return the cells and windows of some entries as text."""
    names = dict.fromkeys(
        f"{f'state {entry.name!r}' if entry.name else 'a value'} in the window {shown_window(entry.window)}"
        for entry in entries
    )
    return "; ".join(names)
