"""The walk of an element: the modules of the package that run between its source and its sink.

`python tests/architecture/walk.py RUNNER` lists them in the order in which they first run, with a function of each:

- `local`: in the process that runs the pipeline
- `streaming`: in the workers of a job with `--parallelism=2` and checkpoints
- `spark-batch`, `spark-microbatch`: in the tasks of executors, run here without Spark

A module counts if one of its functions runs after the source gives the element and before the sink has written its
result.  What happens once for many elements doesn't count: constructors, the generation of a stage's code, snapshots,
and reports to the coordinator.  Nor do modules that run only in the driver, in the coordinator, or in other threads.
"""

from __future__ import annotations

import json
import mmap
import os
import pathlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import penstock as beam
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import Sink, SinkContext, SinkWriter
from penstock.sdk.sources.bounded import BoundedSource

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(beam.__file__)), "")

# Set in the code of functions, and not in that of modules and class bodies.
_CO_OPTIMIZED = 1

# Functions that set up what a run has once, that write and restore snapshots, or that report to the coordinator.
_SET_UP = {"__init__", "setup", "teardown", "_kernel"}
_SNAPSHOTS = {"snapshot", "_snapshot", "restore", "write_part"}
_REPORTS = {"counted", "_report"}
_ASIDE = _SET_UP | _SNAPSHOTS | _REPORTS


class _Aside(threading.local):
    """The outermost frame that isn't on the way, by thread."""

    frame: FrameType | None = None


class Walk:
    """Modules that run, in this process and in those that it is sent to.

    Args:
      directory: where each process writes the modules that it has seen.
    """

    def __init__(self, directory: pathlib.Path, owner: int | None = None) -> None:
        self._directory = directory
        self._owner = owner or os.getpid()
        # Shared by processes, and by copies: whether the element is on its way.
        flag = directory.parent / "on its way"
        if not flag.exists():
            flag.write_bytes(b"\0")
        with flag.open("r+b") as file:
            self._is_on_its_way = mmap.mmap(file.fileno(), 1)
        self._seen: dict[str, str] = {}
        self._codes: set[CodeType] = set()
        self._aside = _Aside()
        # Returns False for a driver, whose modules don't count.
        self.is_inside: Callable[[], bool] = lambda: True

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._directory, self._owner)

    def begin(self) -> None:
        """Note that the source gives the element."""
        self._is_on_its_way[0] = 1

    def end(self) -> None:
        """Note that the sink has written its result."""
        self._is_on_its_way[0] = 0

    def trace(self) -> None:
        """Trace this process."""
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_name in _ASIDE and code.co_filename.startswith(PACKAGE):
            if event == "call" and self._aside.frame is None:
                self._aside.frame = frame
            elif event == "return" and self._aside.frame is frame:
                self._aside.frame = None
        if event != "call" or self._aside.frame or not self._is_on_its_way[0] or code in self._codes:
            return
        if code.co_flags & _CO_OPTIMIZED and code.co_filename.startswith(PACKAGE) and self.is_inside():
            self._codes.add(code)
            module = code.co_filename.removeprefix(PACKAGE)
            # In a checkout, the packages of others are below it.
            if module not in self._seen and not module.startswith(("tests", ".venv")):
                self._seen[module] = code.co_qualname
                # At once: a worker may be killed before it can say anything.
                (self._directory / str(os.getpid())).write_text(json.dumps(self._seen))

    def modules(self) -> dict[str, str]:
        """Return the modules, each with a function of it."""
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        found: dict[str, str] = {}
        for path in sorted(self._directory.iterdir()):
            found |= json.loads(path.read_text())
        return found


def _arrived(directory: pathlib.Path, owner: int) -> Walk:
    """Return a walk that was sent; the first one of a worker traces it."""
    walk = Walk(directory, owner)
    if os.getpid() != owner and sys.getprofile() is None:
        walk.is_inside = lambda: threading.current_thread() is threading.main_thread()
        walk.trace()
    return walk


class OneElement(BoundedSource[tuple[str, int]]):
    """Gives one element whose walk is traced, after one that finds all workers started."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def split(self, desired_splits: int) -> list[int]:
        return [0]

    def read(self, split: int) -> Iterator[tuple[str, int]]:
        yield "key", 0
        time.sleep(0.5)
        self._walk.begin()
        yield "key", 1


class EndOfWalk(Sink[None]):
    """Ends the walk when it has written."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def prepare(self, context: SinkContext) -> None:
        pass

    def open_writer(self, context: SinkContext) -> SinkWriter[None]:
        return _EndOfWalk(self._walk)

    def commit(self, context: SinkContext, staged: Sequence[None]) -> None:
        pass

    def abort(self, context: SinkContext) -> None:
        pass


class _EndOfWalk(SinkWriter[None]):
    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def write(self, bundle: Bundle) -> None:
        self._walk.end()

    def stage(self) -> None:
        pass

    def discard(self) -> None:
        pass


def build(p: Any, walk: Walk) -> None:
    """Read the element, map, window, combine and map it, and write the result."""
    _ = (
        p
        | beam.io.Read(OneElement(walk))
        | "before" >> beam.Map(lambda pair: pair)
        | beam.WindowInto(beam.window.FixedWindows(10))
        | beam.CombinePerKey(sum)
        | "after" >> beam.MapTuple(lambda key, total: f"{key} {total}")
        | beam.io.Write(EndOfWalk(walk))
    )


def _local(walk: Walk, directory: pathlib.Path) -> None:
    # Another thread samples the steps.
    walk.is_inside = lambda: threading.current_thread() is threading.main_thread()
    walk.trace()
    with beam.Pipeline(argv=[]) as p:
        build(p, walk)


def _streaming(walk: Walk, directory: pathlib.Path) -> None:
    checkpoints = f"--checkpoint_dir={directory / 'checkpoints'}"
    with beam.Pipeline(argv=["--parallelism=2", "--workers=2", checkpoints]) as p:
        build(p, walk)


def _inside(walk: Walk, owner: Any, name: str) -> None:
    """Count what runs in a method only."""
    original, inside = getattr(owner, name), threading.local()

    def called(*arguments: Any, **named: Any) -> Any:
        made = original(*arguments, **named)
        if not isinstance(made, Iterator):
            return made
        return _within(made)

    def entered(*arguments: Any, **named: Any) -> Any:
        inside.depth = getattr(inside, "depth", 0) + 1
        try:
            return called(*arguments, **named)
        finally:
            inside.depth -= 1

    def _within(rows: Iterable[Any]) -> Iterator[Any]:
        iterator = iter(rows)
        while True:
            inside.depth = getattr(inside, "depth", 0) + 1
            try:
                row = next(iterator, _END)
            finally:
                inside.depth -= 1
            if row is _END:
                return
            yield row

    setattr(owner, name, entered)
    walk.is_inside = lambda: getattr(inside, "depth", 0) > 0


_END = object()


def _spark_batch(walk: Walk, directory: pathlib.Path) -> None:
    from support.runners import segments

    from penstock.runners.execution.batch.segment_program import SegmentProgram

    _inside(walk, SegmentProgram, "run")
    walk.trace()
    p = beam.Pipeline(argv=[])
    build(p, walk)
    segments.run_in_this_process(p)


def _spark_microbatch(walk: Walk, directory: pathlib.Path) -> None:
    from support.runners.micro_batches import BatchesInThisProcess, RunnerInThisProcess

    _inside(walk, BatchesInThisProcess, "_run")
    walk.trace()
    with beam.Pipeline(runner=RunnerInThisProcess(), argv=[]) as p:
        build(p, walk)


RUNNERS: dict[str, Callable[[Walk, pathlib.Path], None]] = {
    "local": _local,
    "streaming": _streaming,
    "spark-batch": _spark_batch,
    "spark-microbatch": _spark_microbatch,
}


def walked(runner: str) -> dict[str, str]:
    """Return the modules on an element's way with a function of each, in a process that runs nothing else."""
    with tempfile.TemporaryDirectory() as directory:
        traces = pathlib.Path(directory, "traces")
        traces.mkdir()
        walk = Walk(traces)
        RUNNERS[runner](walk, pathlib.Path(directory))
        return walk.modules()


if __name__ == "__main__":
    modules = walked(sys.argv[1])
    if sys.argv[2:] == ["--json"]:
        print(json.dumps(modules))
    else:
        for module, function in modules.items():
            print(f"{module:55} {function}")
        print(f"{len(modules)} modules")
