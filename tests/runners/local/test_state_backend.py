"""State beyond memory on the local runner: killed workers, failures, and starts with another backend or parallelism."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import PenstockError, SnapshotError
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.sdk.userstate import BagStateSpec, TimerSpec, on_timer
from penstock.windowing import Timestamp
from penstock.windowing.timestamp import MAX_MICROS

KEYS, ROUNDS, SECOND = 400, 5, 1_000_000


class Rounds(UnboundedSource[tuple[int, int]]):
    """Each key with the numbers of all rounds, one round after the other, in event time as well."""

    repeatable = True

    def partitions(self) -> Sequence[int]:
        return [0]

    def open(self, partition: int, offset: int | None) -> UnboundedReader[tuple[int, int]]:
        return RoundsReader(offset or 0)


class RoundsReader(UnboundedReader[tuple[int, int]]):
    def __init__(self, at: int) -> None:
        self.at = at

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        found = range(self.at, min(self.at + min(max_elements, 20), KEYS * ROUNDS))
        self.at = max(self.at, found.stop)
        # Keys come in another order in each round.
        pairs = [(n % KEYS * 3 ** (n // KEYS) % KEYS, n // KEYS) for n in found]
        return Bundle(pairs, [n // KEYS * SECOND for n in found]) if found else None

    def offset(self) -> int:
        return self.at

    def watermark(self, now: Timestamp) -> int:
        return MAX_MICROS if self.is_finished() else self.at // KEYS * SECOND

    def is_finished(self) -> bool:
        return self.at >= KEYS * ROUNDS


class Remember(beam.DoFn):
    """All numbers of a key, at the end, and how many there are after each."""

    SEEN = BagStateSpec("seen")
    END = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(
        self, element: Any, seen: Any = beam.DoFn.StateParam(SEEN), end: Any = beam.DoFn.TimerParam(END)
    ) -> Iterator[Any]:
        key, number = element
        seen.add(number)
        end.set(ROUNDS)
        yield f"{key} has {len(list(seen.read()))}"

    @on_timer(END)
    def at_end(self, key: Any = beam.DoFn.KeyParam, seen: Any = beam.DoFn.StateParam(SEEN)) -> Iterator[Any]:
        yield f"{key} saw {sorted(seen.read())}"


class Interrupt(beam.DoFn):
    """Interrupts the first process that comes to an element in the middle: by a signal or an error."""

    def __init__(self, marker: pathlib.Path, kills: bool) -> None:
        self.marker = marker
        self.kills = kills

    def process(self, element: Any) -> Iterator[Any]:
        if element == (7, 3):
            with contextlib.suppress(FileExistsError):
                self.marker.touch(exist_ok=False)
                if self.kills:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("interrupted")
        yield element


def run(directory: pathlib.Path, kills: bool, *flags: str) -> None:
    """A DoFn with state, and sums in windows and in sessions that grow, of the same keys."""
    given = [f"--checkpoint_dir={directory / 'kept'}", "--checkpoint_interval=0.05", "--checkpoint_min_pause=0", *flags]
    p = beam.Pipeline(options=PipelineOptions(given))
    pairs = p | beam.io.Read(Rounds()) | beam.ParDo(Interrupt(directory / "met", kills))
    states = pairs | "Remember" >> beam.ParDo(Remember())
    texts = [states | "All" >> beam.WindowInto(beam.window.FixedWindows(100))]
    for name, window_fn in (("windows", beam.window.FixedWindows(2)), ("sessions", beam.window.Sessions(1.5))):
        sums = pairs | f"In {name}" >> beam.WindowInto(window_fn) | f"Sums in {name}" >> beam.CombinePerKey(sum)
        texts.append(sums | f"Of {name}" >> beam.MapTuple(lambda key, total, name=name: f"{key}, {name}: {total}"))
        texts[-1] = texts[-1] | f"Again {name}" >> beam.WindowInto(beam.window.FixedWindows(100))
    _ = tuple(texts) | beam.Flatten() | beam.io.WriteToText(str(directory / "out"))
    p.run().wait_until_finish()


def expected() -> list[str]:
    in_windows = [sum(range(start, min(start + 2, ROUNDS))) for start in range(0, ROUNDS, 2)]
    lines = []
    for key in range(KEYS):
        lines += [f"{key} has {count}" for count in range(1, ROUNDS + 1)]
        lines += [f"{key} saw {list(range(ROUNDS))}", f"{key}, sessions: {sum(range(ROUNDS))}"]
        lines += [f"{key}, windows: {total}" for total in in_windows]
    return sorted(lines)


def written(directory: pathlib.Path) -> list[str]:
    return sorted(line for path in directory.glob("out*") for line in path.read_text().splitlines())


LITTLE = ("--state_backend=rocksdb", "--state_memory=60KB")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_no_row_is_lost_or_comes_twice(
    tmp_path: pathlib.Path, parallelism: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed; in this process a function fails.  No file stays in the directory, which is relative."""
    monkeypatch.chdir(tmp_path)
    run(tmp_path, parallelism > 1, *LITTLE, "--state_dir=state", f"--parallelism={parallelism}")
    assert (tmp_path / "met").exists()
    assert expected() == written(tmp_path)
    wait_until(lambda: os.listdir(tmp_path / "state") == [], "no files")


def test_a_directory_that_can_not_be_made_is_named_at_the_start(tmp_path: pathlib.Path) -> None:
    """Not when memory is exhausted."""
    (tmp_path / "file").touch()
    with pytest.raises(
        SnapshotError, match=rf"can't be kept in {tmp_path}/file/state \(--state_dir\): .*Not a directory"
    ):
        run(tmp_path, False, *LITTLE, f"--state_dir={tmp_path}/file/state", "--max_restarts=0")


def test_a_bounded_pipeline_has_the_backend_that_it_asks_for(tmp_path: pathlib.Path) -> None:
    """It runs as a stream does."""
    files = tmp_path / "state"
    files.mkdir()
    p = beam.Pipeline(options=PipelineOptions([*LITTLE, f"--state_dir={files}"]))
    remembered = p | beam.Create([(n % 500, n) for n in range(3_000)]) | beam.ParDo(Remember())
    most = remembered | beam.Map(lambda text: len(list(files.iterdir()))) | beam.CombineGlobally(max)
    _ = most | beam.io.WriteToText(str(tmp_path / "out"))
    p.run().wait_until_finish()
    assert ["1"] == written(tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([*LITTLE, "--parallelism=2"], ["--parallelism=1"]),
        (["--parallelism=1"], [*LITTLE, "--parallelism=2"]),
        ([*LITTLE, "--parallelism=2"], [*LITTLE, "--parallelism=3"]),
    ],
    ids=["from rocksdb", "to rocksdb", "rescaled"],
)
def test_a_job_resumes_with_another_backend_or_parallelism(
    tmp_path: pathlib.Path, before: list[str], after: list[str]
) -> None:
    """Checkpoints have one format."""
    with pytest.raises((PenstockError, ValueError), match="interrupted"):
        run(tmp_path, False, "--max_restarts=0", *before)
    assert written(tmp_path) != expected()
    run(tmp_path, False, *after)
    assert expected() == written(tmp_path)
