"""Bounded pipelines in several worker processes: what happens when one dies, and what is left behind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from support.programs.running_program import RunningProgram

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import PenstockError
from penstock.sdk.metrics import Metrics, MetricsFilter


@pytest.fixture
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The directory for temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


class DieOnce(beam.DoFn):
    """Kills the first process that gets here: the one that makes the file."""

    def __init__(self, has_died: pathlib.Path) -> None:
        self.has_died = has_died

    def process(self, element: Any) -> Iterator[Any]:
        Metrics.counter("test", "seen").inc()
        with contextlib.suppress(FileExistsError):
            self.has_died.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        yield element


def sums(p: beam.Pipeline, before: Any, after: Any) -> Any:
    """Sums by key with a side input, and a DoFn on either side of the shuffle."""
    largest = beam.pvalue.AsSingleton(p | "bounds" >> beam.Create([500]) | beam.CombineGlobally(max))
    pairs = p | beam.Create(range(1000)) | "before" >> before | beam.Map(lambda n: (n % 7, n))
    totals = pairs | beam.CombinePerKey(sum) | "after" >> after
    return totals | beam.Map(lambda pair, bound: f"{pair[0]} {pair[1] + bound}", bound=largest)


EXPECTED = [f"{key} {sum(range(key, 1000, 7)) + 500}" for key in range(7)]


def lines(directory: pathlib.Path) -> list[str]:
    return sorted(line for path in directory.glob("out*") for line in path.read_text().splitlines())


@pytest.mark.parametrize("where", ["before", "after"])
def test_the_part_of_a_worker_that_dies_is_processed_again(
    where: str, tmp_path: pathlib.Path, temporary: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the shuffle and behind it; nothing comes twice, is counted twice, or is left."""
    dying, fine = beam.ParDo(DieOnce(tmp_path / "died")), beam.Map(lambda element: element)
    p = beam.Pipeline(options=PipelineOptions([], parallelism=2))
    steps = (dying, fine) if where == "before" else (fine, dying)
    _ = sums(p, *steps) | beam.io.WriteToText(tmp_path / "out")
    result = p.run()
    assert EXPECTED == lines(tmp_path)
    counters = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
    assert [1000 if where == "before" else 7] == [counter.committed for counter in counters]
    (death,) = [r.getMessage() for r in caplog.records if "killed by SIGKILL" in r.getMessage()]
    assert "Its partitions are processed again (retry 1 of 3, --max_restarts)" in death
    assert [] == list(temporary.iterdir())
    assert [] == list(tmp_path.glob(".*penstock*"))


def test_a_function_that_always_kills_its_worker_fails_the_run(tmp_path: pathlib.Path, temporary: pathlib.Path) -> None:
    """After --max_restarts; the error says what the last worker was running, and nothing is written."""
    p = beam.Pipeline(options=PipelineOptions([], parallelism=2, max_restarts=1))
    dying = beam.Map(lambda element: os.kill(os.getpid(), signal.SIGKILL))
    _ = sums(p, dying, beam.Map(lambda element: element)) | beam.io.WriteToText(tmp_path / "out")
    expected = (
        r"worker \d \(pid \d+\) was killed by SIGKILL .*dmesg\); it was running Create/.*before.*, "
        r"and --max_restarts=1 retries have failed"
    )
    with pytest.raises(PenstockError, match=expected):
        p.run()
    assert [] == lines(tmp_path)
    assert [] == list(temporary.iterdir())
    assert [] == list(tmp_path.glob(".*penstock*"))


WAITS = """
import os, time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def wait(pair):
    print("waits", os.getpid(), flush=True)
    time.sleep(1000)

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(parallelism=2)) as p:
        pairs = p | beam.Create([(n, n) for n in range(100)]) | beam.GroupByKey()
        _ = pairs | beam.Map(wait)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_program_and_leaves_no_files(
    number: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it ends any program; the blocks of the shuffle are gone."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    with RunningProgram(tmp_path, WAITS) as program:
        program.wait_until(lambda: program.log.count("waits") == 2, "two workers")
        assert [path.name.startswith("penstock-batch-") for path in directory.iterdir()] == [True]
        program.signal(number)
        assert -number == program.ended()
    assert [] == list(directory.iterdir())


def test_one_worker_is_the_process_that_starts_the_run(tmp_path: pathlib.Path) -> None:
    """Nothing is sent anywhere, so it need not be data."""
    p = beam.Pipeline(options=PipelineOptions([], parallelism=4, workers=1))
    generators = p | beam.Create([1]) | beam.Map(lambda n: ("k", (i for i in range(n)))) | beam.GroupByKey()
    _ = generators | beam.Map(lambda pair: str(os.getpid())) | beam.io.WriteToText(tmp_path / "out")
    p.run()
    assert [str(os.getpid())] == lines(tmp_path)


class Numbers(beam.DoFn):
    """Pairs of numbers, among them integers whose hashes are equal, and others from a number on."""

    def __init__(self, other: Any, after: int) -> None:
        self.other = other
        self.after = after

    def process(self, n: int) -> Iterator[Any]:
        key = (n * 7919) % 211 - 100
        yield beam.window.TimestampedValue((key, n if n < self.after or n % 3 else self.other), n % 50)


@pytest.mark.parametrize(
    ("other", "after"), [(0, 0), (0.5, 0), (1 << 31, 20_000), ("text", 20_000), (True, 29_999)], ids=repr
)
@pytest.mark.parametrize("window_fn", [beam.window.GlobalWindows(), beam.window.SlidingWindows(20, 10)], ids=repr)
def test_pairs_of_numbers_and_others_are_grouped_as_in_one_process(
    other: Any, after: int, window_fn: Any, tmp_path: pathlib.Path
) -> None:
    """Wherever the first pair is that isn't one of numbers of the same type."""
    found: list[list[str]] = []
    for workers in (1, 2):
        directory = tmp_path / str(workers)
        p = beam.Pipeline(options=PipelineOptions([], parallelism=workers))
        pairs = p | beam.Create(range(30_000)) | beam.ParDo(Numbers(other, after)) | beam.WindowInto(window_fn)
        groups = pairs | beam.GroupByKey()
        text = beam.MapTuple(lambda key, values, w=beam.DoFn.WindowParam: f"{w} {key} {sorted(map(repr, values))}")
        _ = groups | text | beam.io.WriteToText(directory / "out")
        p.run()
        found.append(lines(directory))
    assert found[0] == found[1]
    assert 211 <= len(found[0])


@pytest.mark.parametrize("start", ["forkserver", "spawn"])
def test_equal_keys_of_several_workers_are_one_group(start: str, tmp_path: pathlib.Path) -> None:
    """Whether `hash` is the same in all of them or not, and whatever type of several equal keys comes."""
    keys: list[Any] = [None, "a", 1, ("b", None), b"c", 2.5, frozenset(["d", "e"])]
    p = beam.Pipeline(options=PipelineOptions([], parallelism=3, start_method=start))
    pairs = [((1, 1.0, True)[i % 3] if i % 7 == 2 else keys[i % 7], i) for i in range(2100)]
    groups = p | beam.Create(pairs) | beam.GroupByKey()
    sizes = groups | beam.MapTuple(lambda key, values: f"{len(values)} {sum(values)}")
    _ = sizes | beam.io.WriteToText(tmp_path / "out")
    p.run()
    assert sorted(f"300 {sum(range(k, 2100, 7))}" for k in range(7)) == lines(tmp_path)
