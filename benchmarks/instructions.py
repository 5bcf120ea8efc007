"""`python benchmarks instructions OTHER [names]`: instructions of this checkout and another, by valgrind.

Seconds vary by tens of percent on a machine that others use.  The number of instructions varies by less than one, so a
change of three percent is seen.  Both checkouts run the same pipelines, made of names that both have, each with the
Python of its own `.venv`; a run is warm, and without the import and the first run.  Columns, processes and Spark are
left out: instructions of libraries and of waiting say little about time.

Each line has millions of instructions.  The exit status is 1 when one has grown by more than three percent.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The greatest ratio to the other checkout.
LIMIT = 1.03

_NOON = 1_441_022_400
_EVENTS = 30_000

Run = Callable[[], Any]


def events() -> list[tuple[str, int, int]]:
    """Keys, event times and values of an hour, out of order."""
    rng = random.Random(2015)
    return [
        (f"user-{rng.randrange(3_000)}", _NOON + int(i * 3600 / _EVENTS - rng.expovariate(1 / 30)), rng.randrange(100))
        for i in range(_EVENTS)
    ]


def chain() -> Run:
    """Five Maps and a Filter."""
    import penstock as beam

    numbers = list(range(60_000))

    def run() -> None:
        with beam.Pipeline() as p:
            mapped = p | beam.Create(numbers)
            for i in range(5):
                mapped = mapped | f"{i}" >> beam.Map(lambda x: x + 1)
            _ = mapped | beam.Filter(lambda x: x % 3 == 0) | beam.combiners.Count.Globally()

    return run


def word_count() -> Run:
    """Words of lines."""
    import penstock as beam

    rng = random.Random(2015)
    lines = [" ".join(f"w{int(rng.paretovariate(0.5)) % 20_000}" for _ in range(10)) for _ in range(10_000)]

    def run() -> None:
        with beam.Pipeline() as p:
            _ = p | beam.Create(lines) | beam.FlatMap(str.split) | beam.combiners.Count.PerElement()

    return run


def summed(windowing: Callable[[Any], Any]) -> Run:
    import penstock as beam

    occurred = events()

    def run() -> None:
        with beam.Pipeline() as p:
            stamped = p | beam.Create(occurred) | beam.WithTimestamps(lambda event: event[1])
            pairs = stamped | beam.Map(lambda event: (event[0], event[2]))
            _ = pairs | windowing(beam) | beam.CombinePerKey(sum)

    return run


def windowed_sums() -> Run:
    """A sum for each key and minute."""
    return summed(lambda beam: beam.WindowInto(beam.window.FixedWindows(60)))


def sessions() -> Run:
    """Sums of sessions."""
    return summed(lambda beam: beam.WindowInto(beam.window.Sessions(60)))


def retracting(window_fn: Callable[[Any], Any]) -> Run:
    import penstock as beam
    from penstock.testing import TestStream
    from penstock.triggers import AccumulationMode, AfterProcessingTime, AfterWatermark

    occurred, each = events(), 100
    stream = TestStream()
    for i in range(0, _EVENTS, each):
        stream = stream.add_elements(occurred[i : i + each]).advance_processing_time(10)
        stream = stream.advance_watermark_to(_NOON + i * 3600 // _EVENTS - 900)
    stream = stream.advance_watermark_to_infinity()

    def run() -> None:
        with beam.Pipeline() as p:
            stamped = p | stream | beam.WithTimestamps(lambda event: event[1])
            trigger = AfterWatermark(early=AfterProcessingTime(align_to=10))
            mode = AccumulationMode.RETRACTING
            pairs = stamped | beam.Map(lambda event: (event[0], event[2]))
            sums = pairs | beam.WindowInto(window_fn(beam), trigger=trigger, accumulation_mode=mode)
            _ = sums | beam.CombinePerKey(sum) | beam.Map(lambda pair: pair)

    return run


def retracting_sums() -> Run:
    """Sums for each key and minute, corrected every ten seconds."""
    return retracting(lambda beam: beam.window.FixedWindows(60))


def retracting_sessions() -> Run:
    """Sums of sessions, corrected every ten seconds."""
    return retracting(lambda beam: beam.window.Sessions(60))


def streamed(transform: Callable[[Any, Any], Any]) -> Run:
    import penstock as beam
    from penstock.options.pipeline_options import PipelineOptions

    pairs = [(key, value) for key, _, value in events()]

    def run() -> None:
        with tempfile.TemporaryDirectory() as directory:
            flags = [f"--checkpoint_dir={directory}", "--checkpoint_interval=1"]
            p = beam.Pipeline("local", PipelineOptions(flags))
            _ = transform(beam, p | beam.Create(pairs, reshuffle=False)) | beam.Map(lambda pair: pair)
            p.run().wait_until_finish()

    return run


def running_panes() -> Run:
    """A running sum for each key, with panes as a stream goes on."""
    from penstock.triggers import AccumulationMode, Always

    def transform(beam: Any, pairs: Any) -> Any:
        mode = AccumulationMode.ACCUMULATING
        windowing = beam.WindowInto(beam.window.GlobalWindows(), trigger=Always(), accumulation_mode=mode)
        return pairs | windowing | beam.CombinePerKey(sum)

    return streamed(transform)


def running_state() -> Run:
    """A running sum for each element, by a DoFn with state."""
    import penstock as beam
    from penstock.sdk.userstate import ReadModifyWriteStateSpec

    total_spec = ReadModifyWriteStateSpec("sum")

    class RunningSum(beam.DoFn):
        def process(self, element: Any, total: Any = beam.DoFn.StateParam(total_spec)) -> Any:
            key, value = element
            value += total.read() or 0
            total.write(value)
            yield key, value

    return streamed(lambda _, pairs: pairs | beam.ParDo(RunningSum()))


def ten_elements() -> Run:
    """A pipeline of ten elements."""
    import penstock as beam

    def run() -> None:
        with beam.Pipeline() as p:
            _ = p | beam.Create(range(10)) | "Add" >> beam.Map(lambda x: x + 1) | "Drop" >> beam.Filter(lambda x: False)

    return run


WORK: dict[str, Callable[[], Run]] = {
    function.__name__: function
    for function in (
        *(chain, word_count, windowed_sums, sessions, retracting_sums, retracting_sessions),
        *(running_panes, running_state, ten_elements),
    )
}


def instructions(checkout: Path, *arguments: str) -> int:
    """The instructions of a Python process of a checkout, in this directory."""
    python = [str(checkout / ".venv" / "bin" / "python"), *arguments]
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    # Orders of sets are the same.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # Once without valgrind, which compiles modules that have changed.
    subprocess.run(python, env=environment, capture_output=True)
    ran = subprocess.run([*callgrind, *python], env=environment, capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"{checkout}: {' '.join(arguments)} failed: {ran.stderr[-2000:]}")
    # Forked children have lines of their own; the first process has most.
    return max(map(int, re.findall(r"Collected : (\d+)", ran.stderr)))


def of_a_run(checkout: Path, name: str) -> float:
    """Instructions of a warm run."""
    once, thrice = (instructions(checkout, __file__, "--run", name, str(times)) for times in (1, 3))
    return (thrice - once) / 2


def of_the_import(checkout: Path) -> float:
    """Instructions of `import penstock`, whose bytecode is there."""
    nothing, _, warm = (instructions(checkout, "-c", code) for code in ("pass", "import penstock", "import penstock"))
    return warm - nothing


def main(arguments: list[str]) -> int:
    """Compare this checkout with another; the exit status is 1 if it takes more."""
    if arguments and arguments[0] == "--run":
        run = WORK[arguments[1]]()
        for _ in range(int(arguments[2])):
            run()
        return 0
    if not arguments or shutil.which("valgrind") is None:
        print("expected the path of another checkout with a .venv, and valgrind on the PATH", file=sys.stderr)
        return 2
    this, other = Path(__file__).parents[1], Path(arguments[0])
    passes = True
    for name in arguments[1:] or ("import", *WORK):
        measure = of_the_import if name == "import" else lambda checkout, name=name: of_a_run(checkout, name)
        ours, before = measure(this), measure(other)
        passes &= ours <= LIMIT * before
        verdict = "ok" if ours <= LIMIT * before else "OVER"
        print(
            f"{name:<20} {ours / 1e6:9.1f}   before {before / 1e6:9.1f}   ratio {ours / before:.3f}   {verdict}",
            flush=True,
        )
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
