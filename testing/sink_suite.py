"""SinkSuite: the conformance suite of sinks, as tests of pytest.

A subclass says how to write to a new place and what a reader sees there, and inherits the tests:

    class TestJsonDocuments(SinkSuite):
        @pytest.fixture(autouse=True)
        def directory(self, tmp_path):
            self.path = tmp_path

        def place(self):
            return tempfile.mkdtemp(dir=self.path)

        def write(self, place):
            return JsonDocuments(place)

        def read(self, place):
            return [n for file in pathlib.Path(place).glob("*.json") for n in json.loads(file.read_text())]

The suite writes numbers.  `element` makes elements of them, and `read` returns the numbers that a reader sees.  Tests
of what a sink doesn't have, by the attributes and the methods of its class, aren't collected.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from ..sdk.errors import CheckpointMismatchError, PenstockError, RejectedRecordError, UnsupportedError
from ..sdk.options import PipelineOptions
from ..sdk.pipeline import Pipeline
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.runner import PipelineResult, create_runner
from ..sdk.sink import Sink
from ..transforms import CombinePerKey, Create, Feedback, FlatMap, Map, Read, WindowInto
from ..transforms.write import Write
from ..triggers import AccumulationMode, AfterCount, Repeatedly
from ..windowing import GlobalWindows
from .gated_source import Gate, GatedSource
from .killed_process import KilledProcess, until
from .killed_sink import Kill, Phase, with_killed_sinks

# The numbers of the parts of a stream.
_FEW, _MORE = 20, 50

# The shares of a commit's calls after which its process is killed, one start after the other.
_SHARES = (0.25, 0.5, 0.75)

# The keys of the tests of retractions, and the number of an element by its key and its count.
_KEYS = 5
_OF_KEY = 1_000

# By the labels of the transforms that write, the transforms, and by number the elements that they write.
Writes: TypeAlias = Mapping[str, tuple[PTransform, Mapping[Any, Any]]]


class SinkSuite:
    """Base class of the tests of a sink, which pytest collects from subclasses whose names begin with `Test`.

    Attributes:
      accepts_two: whether two transforms of a pipeline may write into one place.  Otherwise the second one must be
        refused by an error that names both.
      is_atomic: whether a reader sees all elements of a transaction or none.
      accepts_retractions: whether the sink accepts retractions; `read` returns the numbers that aren't retracted.
      has_target: whether a sink with another label publishes what the former one has staged; see `Sink.target`.
      many: the number of elements of a batch that has many.

    >>> import tempfile
    >>> from penstock.testing.collecting_sink import CollectingSink, collected
    >>> class TestCollectingSink(SinkSuite):
    ...     def place(self):
    ...         return tempfile.mkdtemp()
    ...     def write(self, place):
    ...         return CollectingSink(place)
    ...     def read(self, place):
    ...         return collected(place)
    >>> TestCollectingSink().test_one_element_is_published()
    """

    accepts_two: bool = True
    is_atomic: bool = True
    accepts_retractions: bool = False
    has_target: bool = True
    many: int = 2_000

    # --- What a subclass defines

    def place(self) -> Any:
        """Return a new place to write to, which no other test has, such as the name of a table."""
        raise NotImplementedError(f"{type(self).__name__}.place")

    def neighbour(self, place: Any) -> Any:
        """Return another new place, which might be taken for the first, such as a longer name that begins with it."""
        return self.place()

    def write(self, place: Any) -> PTransform | Sink[Any]:
        """Return a transform or a sink that writes to a place."""
        raise NotImplementedError(f"{type(self).__name__}.write")

    def element(self, number: int, key: int) -> Any:
        """Return an element for a number.  A sink with keys replaces the element of the same key."""
        return number

    def read(self, place: Any) -> Iterable[int]:
        """Return the numbers that a reader sees, in any order; none where nothing was written yet."""
        raise NotImplementedError(f"{type(self).__name__}.read")

    def sever(self) -> None:
        """Let the server that `write` connects to lose its connections, and accept none."""
        raise NotImplementedError(f"{type(self).__name__}.sever")

    def restore(self) -> None:
        """Let the server accept connections again."""
        raise NotImplementedError(f"{type(self).__name__}.restore")

    def refused(self, place: Any) -> Sequence[Any]:
        """Return elements that the target refuses, among others that it accepts."""
        raise NotImplementedError(f"{type(self).__name__}.refused")

    def dead_letters(self, place: Any) -> int:
        """Return the number of dead letters that the sink has written for a place."""
        raise NotImplementedError(f"{type(self).__name__}.dead_letters")

    def __init_subclass__(cls) -> None:
        def defines(name: str) -> bool:
            return getattr(cls, name) is not getattr(SinkSuite, name)

        applies = {
            "test_two_sinks_write_into_one_place": cls.accepts_two,
            "test_one_transform_is_applied_twice": cls.accepts_two,
            "test_two_sinks_of_one_place_are_refused_by_their_labels": not cls.accepts_two,
            "test_a_renamed_sink_publishes_what_was_staged": cls.has_target,
            "test_retractions_take_back_elements_of_earlier_transactions": cls.accepts_retractions,
            "test_retractions_are_refused_when_the_pipeline_is_built": not cls.accepts_retractions,
            "test_a_lost_server_is_waited_for": defines("sever"),
            "test_a_refused_record_fails_the_run_and_is_named": defines("refused"),
            "test_a_refused_record_becomes_a_dead_letter": defines("dead_letters"),
        }
        for name, does in applies.items():
            if name not in cls.__dict__:
                setattr(cls, name, getattr(SinkSuite, name) if does else None)

    # --- How many elements

    def test_no_element_publishes_nothing(self) -> None:
        """And isn't an error."""
        place = self.place()
        self._write_batch({"Save": place}, [])
        assert self._found(place) == []

    def test_one_element_is_published(self) -> None:
        place = self.place()
        self._write_batch({"Save": place}, [7])
        assert self._found(place) == [7]

    def test_many_elements_are_published_once_each(self) -> None:
        place = self.place()
        self._write_batch({"Save": place}, range(self.many))
        assert list(range(self.many)) == self._found(place)

    def test_elements_of_a_stream_are_published_with_its_checkpoints(self, tmp_path: pathlib.Path) -> None:
        """Not before they are in one, and not only at the end."""
        place, stream = self.place(), _Stream(tmp_path)
        stream.gate.open(_FEW)
        result = stream.run(self._writes({"Save": place}))
        until(lambda: self._found(place) == list(range(_FEW)), "the first numbers are published")
        stream.gate.open(_MORE, is_last=True)
        result.wait_until_finish()
        assert list(range(_MORE)) == self._found(place)

    # --- Several sinks

    def test_two_sinks_write_into_one_place(self, tmp_path: pathlib.Path) -> None:
        """Elements of both are published, of a batch and of a stream."""
        for run, of_batch in enumerate((True, False)):
            place, numbers = self.place(), range(_FEW)
            writes = self._writes({"First": place, "Second": place}, numbers, parts=True)
            if of_batch:
                _batch(writes, numbers)
            else:
                _Stream(tmp_path / str(run)).whole(writes, len(numbers))
            assert list(numbers) == self._found(place)

    def test_one_transform_is_applied_twice(self) -> None:
        """Each application is a sink of its own."""
        place, numbers = self.place(), range(_FEW)
        write = self._transform(place)
        even, odd = (self._elements(range(start, _FEW, 2)) for start in range(2))
        _batch({"First": (write, even), "Second": (write, odd)}, numbers)
        assert list(numbers) == self._found(place)

    def test_two_sinks_of_one_place_are_refused_by_their_labels(self) -> None:
        """Also if one object is applied twice."""
        place = self.place()
        one, elements = self._transform(place), self._elements(range(_FEW))
        for other in (one, self._transform(place)):
            with pytest.raises(PenstockError, match="(?s)Second.*First"):
                _batch({"First": (one, elements), "Second": (other, elements)}, range(_FEW))

    def test_neighbours_have_their_own_elements(self, tmp_path: pathlib.Path) -> None:
        """Also after a restart that publishes what was staged."""
        place = self.place()
        places = {"First": place, "Second": self.neighbour(place)}
        writes, stream = self._writes(places, parts=True), _Stream(tmp_path)
        stream.gate.open(_FEW)
        stream.killed(writes, Phase.DECIDED)
        stream.whole(writes, _MORE)
        for start, each in enumerate(places.values()):
            assert list(range(start, _MORE, 2)) == self._found(each)

    def test_a_sink_in_a_loop_gets_the_elements_of_each_round(self) -> None:
        place, rounds = self.place(), 3
        elements = self._elements(range(rounds * _FEW))

        def body(numbers: PCollection[Any]) -> PCollection[Any]:
            following: PCollection[Any] = numbers | "Next" >> Map(lambda n: n + _FEW)
            _ = following | "Elements" >> _looked_up(elements) | "Save" >> self._transform(place)
            return following

        p = Pipeline("local", options=PipelineOptions([]))
        numbers = p | Create([n - _FEW for n in range(_FEW)])
        _ = numbers | Feedback(body, until=lambda n: n >= (rounds - 1) * _FEW)
        p.run().wait_until_finish()
        assert list(range(rounds * _FEW)) == self._found(place)

    # --- Restarts

    @pytest.mark.parametrize("phase", [Phase.UNSTAGED, Phase.STAGED, Phase.DECIDED])
    def test_a_run_that_is_killed_is_continued(self, phase: Phase, tmp_path: pathlib.Path) -> None:
        """Each element is published once; none before its checkpoint is complete."""
        place, stream = self.place(), _Stream(tmp_path)
        stream.gate.open(_FEW)
        stream.killed(self._writes({"Save": place}), phase)
        assert self._found(place) == []
        stream.whole(self._writes({"Save": place}), _MORE)
        assert list(range(_MORE)) == self._found(place)

    def test_a_commit_that_is_killed_again_and_again_is_completed(self, tmp_path: pathlib.Path) -> None:
        """Each element is published once.  Of an atomic commit a reader sees all elements or none."""
        counted = _Stream(tmp_path / "counted")
        counted.gate.open(_FEW, is_last=True)
        note = tmp_path / "calls"
        counted.run(self._writes({"Save": self.place()}), Kill(Phase.PUBLISHING, str(note))).wait_until_finish()
        calls = int(note.read_text())

        place, stream = self.place(), _Stream(tmp_path / "killed", checkpoint_interval=60.0)
        stream.gate.open(_FEW, is_last=True)
        writes, numbers = self._writes({"Save": place}), list(range(_FEW))
        for share in _SHARES:
            stream.killed(writes, Phase.PUBLISHING, max(1, round(share * calls)))
            found = self._found(place)
            assert Counter(found) <= Counter(numbers)
            assert not self.is_atomic or found in ([], numbers)
        stream.run(writes).wait_until_finish()
        assert numbers == self._found(place)

    @pytest.mark.parametrize("phase", [Phase.UNSTAGED, Phase.STAGED])
    def test_one_of_two_workers_is_killed(self, phase: Phase, tmp_path: pathlib.Path) -> None:
        """Each element is published once."""
        place = self.place()
        stream = _Stream(tmp_path, parallelism=2, max_restarts=3, restart_delay=0.01)
        stream.gate.open(_MORE, is_last=True)
        kill = Kill(phase, str(tmp_path / "killed"))
        stream.run(self._writes({"Save": place}), kill).wait_until_finish()
        assert pathlib.Path(kill.note).exists()
        assert list(range(_MORE)) == self._found(place)

    # --- Other sinks at the next start

    def test_a_renamed_sink_publishes_what_was_staged(self, tmp_path: pathlib.Path) -> None:
        """The checkpoint has the output of the former label, which `--allow_dropped_state` lets the sink drop."""
        place, stream = self.place(), _Stream(tmp_path, allow_dropped_state=True)
        stream.gate.open(_FEW)
        stream.killed(self._writes({"Save": place}), Phase.DECIDED)
        stream.whole(self._writes({"Renamed": place}), _MORE)
        assert list(range(_MORE)) == self._found(place)

    def test_an_added_sink_gets_what_follows(self, tmp_path: pathlib.Path) -> None:
        """What the first sink has staged is published by it."""
        place, stream = self.place(), _Stream(tmp_path)
        added = self.neighbour(place)
        stream.gate.open(_FEW)
        stream.killed(self._writes({"Save": place}), Phase.DECIDED)
        stream.whole(self._writes({"Save": place, "Added": added}), _MORE)
        assert list(range(_MORE)) == self._found(place)
        assert set(range(_FEW, _MORE)) <= set(self._found(added))

    def test_a_removed_sink_is_named_while_its_output_is_unpublished(self, tmp_path: pathlib.Path) -> None:
        """A start with the sink publishes it."""
        place, stream = self.place(), _Stream(tmp_path)
        both = {"Save": place, "Removed": self.neighbour(place)}
        stream.gate.open(_FEW)
        stream.killed(self._writes(both), Phase.DECIDED)
        with pytest.raises(CheckpointMismatchError, match="Removed"):
            stream.run(self._writes({"Save": place})).wait_until_finish()
        stream.whole(self._writes(both), _MORE)
        for each in both.values():
            assert list(range(_MORE)) == self._found(each)

    # --- Failures of the target

    def test_a_lost_server_is_waited_for(self, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
        """Without a restart.  A warning, which begins with the label of the transform, says what is waited for."""
        place, stream = self.place(), _Stream(tmp_path, max_restarts=0)
        stream.gate.open(_FEW)
        result = stream.run(self._writes({"Save": place}))
        until(lambda: self._found(place) == list(range(_FEW)), "the first numbers are published")
        caplog.clear()
        self.sever()
        try:
            stream.gate.open(_MORE)
            until(lambda: any(text.startswith("Save") for text in caplog.messages), "a warning names the transform")
        finally:
            self.restore()
        until(lambda: self._found(place) == list(range(_MORE)), "the other numbers are published")
        stream.gate.open(_MORE, is_last=True)
        result.wait_until_finish()
        assert list(range(_MORE)) == self._found(place)

    def test_a_refused_record_fails_the_run_and_is_named(self) -> None:
        """Before anything is published."""
        place = self.place()
        elements = dict(enumerate(self.refused(place)))
        with pytest.raises(RejectedRecordError, match="Save: ") as error:
            _batch({"Save": (self._transform(place), elements)}, elements)
        assert error.value.record is not None
        assert self._found(place) == []

    def test_a_refused_record_becomes_a_dead_letter(self) -> None:
        """With `--on_commit_error=dead_letter`; the others are published."""
        place = self.place()
        elements = dict(enumerate(self.refused(place)))
        _batch({"Save": (self._transform(place), elements)}, elements, on_commit_error="dead_letter")
        letters = self.dead_letters(place)
        assert letters > 0
        assert len(elements) - letters == len(self._found(place))

    # --- Retractions

    def test_retractions_take_back_elements_of_earlier_transactions(self, tmp_path: pathlib.Path) -> None:
        """Each key has the element of its last count."""
        place, stream = self.place(), _Stream(tmp_path)
        writes = {"Save": (self._transform(place), self._counted())}
        for count, is_last in ((_FEW, False), (_MORE, True)):
            stream.gate.open(count, is_last)
            if not is_last:
                result = stream.run(writes, counts=True)
            expected = [_OF_KEY * key + len(range(key, count, _KEYS)) for key in range(_KEYS)]
            until(lambda expected=expected: self._found(place) == expected, "the counts are published")  # type: ignore[misc]
        result.wait_until_finish()

    def test_retractions_are_refused_when_the_pipeline_is_built(self, tmp_path: pathlib.Path) -> None:
        """By the label of the sink, and of the grouping that retracts."""
        writes = {"Save": (self._transform(self.place()), self._counted())}
        with pytest.raises(UnsupportedError, match=r"^Save.*Counts.* may retract"):
            _Stream(tmp_path).run(writes, counts=True)

    # --- What the tests share

    def _found(self, place: Any) -> list[int]:
        return sorted(self.read(place))

    def _transform(self, place: Any) -> PTransform:
        write = self.write(place)
        return write if isinstance(write, PTransform) else Write(write)

    def _elements(self, numbers: Iterable[int]) -> dict[Any, Any]:
        return {number: self.element(number, number) for number in numbers}

    def _counted(self) -> dict[Any, Any]:
        counts = range(1, _MORE // _KEYS + 1)
        return {(k, n): self.element(_OF_KEY * k + n, k) for k in range(_KEYS) for n in counts}

    def _writes(self, places: Mapping[str, Any], numbers: range = range(_MORE), parts: bool = False) -> Writes:
        """Return transforms, of which each writes all numbers, or else its part."""
        of = [numbers[start :: len(places)] if parts else numbers for start in range(len(places))]
        return {
            label: (self._transform(place), self._elements(own))
            for (label, place), own in zip(places.items(), of, strict=True)
        }

    def _write_batch(self, places: Mapping[str, Any], numbers: Sequence[int]) -> None:
        _batch({label: (self._transform(place), self._elements(numbers)) for label, place in places.items()}, numbers)


class _Stream:
    """A stream of numbers into sinks, which is started again from its checkpoints.

    Attributes:
      gate: lets its numbers through.
    """

    def __init__(self, directory: pathlib.Path, **flags: Any) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._flags = {
            "checkpoint_dir": str(directory / "kept"),
            "checkpoint_interval": 0.05,
            "max_restarts": 0,
        } | flags
        self._kills = 0
        self.gate = Gate(directory / "gate")

    def run(self, writes: Writes, kill: Kill | None = None, counts: bool = False) -> PipelineResult:
        """Start the stream in this process.

        Args:
          counts: writes the counts of keys, and retracts former ones.
        """
        return _run(writes, self.gate, self._flags, kill, counts)

    def whole(self, writes: Writes, count: int) -> None:
        """Run the stream to its end, after so many numbers."""
        self.gate.open(count, is_last=True)
        self.run(writes).wait_until_finish()

    def killed(self, writes: Writes, phase: Phase, calls: int | None = None) -> None:
        """Run the stream in a process that is killed in a phase."""
        self._kills += 1
        kill = Kill(phase, str(self._directory / f"kill{self._kills}"), calls)
        process = KilledProcess(self._directory / "log", _run_to_the_end, writes, self.gate, self._flags, kill)
        process.until_it_is_killed()


def _batch(writes: Writes, numbers: Iterable[Any], **flags: Any) -> None:
    """Write numbers in a batch run."""
    p = Pipeline("local", options=PipelineOptions([], **flags))
    _save(p | Create(list(numbers)), writes)
    p.run().wait_until_finish()


def _run_to_the_end(*arguments: Any) -> None:
    _run(*arguments).wait_until_finish()


def _run(
    writes: Writes, gate: Gate, flags: Mapping[str, Any], kill: Kill | None = None, counts: bool = False
) -> PipelineResult:
    options = PipelineOptions([], **flags)
    p = Pipeline("local", options=options)
    numbers = p | "Numbers" >> Read(GatedSource(gate))
    if counts:
        every = Repeatedly(AfterCount(1))
        numbers = (
            numbers
            | "Keys" >> Map(lambda n: (n % _KEYS, 1))
            | WindowInto(GlobalWindows(), trigger=every, accumulation_mode=AccumulationMode.RETRACTING)
            | "Counts" >> CombinePerKey(sum)
        )
    _save(numbers, writes)
    return create_runner("local").run_pipeline(with_killed_sinks(p.graph(), kill), options)


def _save(numbers: PCollection[Any], writes: Writes) -> None:
    for label, (write, elements) in writes.items():
        _ = numbers | f"Elements of {label}" >> _looked_up(elements) | label >> write


def _looked_up(elements: Mapping[Any, Any]) -> PTransform:
    """Return a transform from numbers to their elements, if they have one."""
    return FlatMap(lambda number: [elements[number]] if number in elements else [])
