"""Requests to a stream: by signals, by commands and by its result."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner
from support.programs.running_program import RunningProgram, wait_until

import penstock as beam
from penstock.__main__ import main
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.local.signals import stopping_on_signals
from penstock.sdk.errors import PenstockError

# Numbers into a table as they come; and how many there are of each remainder, when the stream is drained.
STREAM = """
import logging
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

logging.basicConfig(format="%(levelname)s %(message)s")

if __name__ == "__main__":
    options = PipelineOptions(checkpoint_interval=0.1)
    with beam.Pipeline(options=options) as p:
        numbers = p | beam.io.GenerateSequence(0, None, 500, 1, partitions=2)
        rows = numbers | beam.Map(lambda n: {"n": n})
        _ = rows | beam.io.WriteToSQLite("out.db", "numbers", columns=["n"], count_column="times")
        _ = numbers | beam.io.WriteToText("lines")
        windows = numbers | beam.WindowInto(beam.window.FixedWindows(10**9))
        counts = windows | beam.Map(lambda n: n % 3) | beam.combiners.Count.PerElement()
        _ = counts | "Counts" >> beam.io.WriteToSQLite("out.db", "counts", "remainder", columns=["remainder", "n"])
    print("after the pipeline:", p.result.state)
"""

SAVED = (
    "penstock: the pipeline stops with a savepoint, and the next start resumes from it; "
    "a second signal ends it at once\n"
)
DRAINED = "penstock: the pipeline stops reading, and processes what it has read; a second signal ends it at once\n"


class Stream(RunningProgram):
    """The running program in a directory."""

    def __init__(self, directory: pathlib.Path, *flags: str, leads: bool = False) -> None:
        self._directory = directory
        super().__init__(directory, STREAM, *flags, leads=leads)

    def rows(self, table: str) -> list[Any]:
        """The committed rows of the table, in order; empty while there is no table."""
        if not (self._directory / "out.db").exists():
            return []
        connection = sqlite3.connect(f"file:{self._directory / 'out.db'}?mode=ro", uri=True, timeout=60)
        try:
            return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    def wait_for_more_than(self, n: int) -> None:
        """Until more numbers than that can be read."""
        self.wait_until(lambda: len(self.rows("numbers")) > n, f"{n} numbers")


def check_results(stream: Stream) -> None:
    """Check that each number is published once, without gaps, and that the counts agree."""
    rows = stream.rows("numbers")
    numbers = [n for n, _ in rows]
    partitions = [[n for n in numbers if n % 2 == partition] for partition in (0, 1)]
    expected = sorted(n for i, own in enumerate(partitions) for n in range(i, 2 * len(own), 2))
    assert [(n, 1) for n in expected] == rows
    assert sorted(Counter(n % 3 for n in numbers).items()) == stream.rows("counts")


def checkpoints(command: str, directory: pathlib.Path, *arguments: str) -> Any:
    """`penstock checkpoints`, in this process."""
    return CliRunner().invoke(main, ["checkpoints", command, str(directory), *arguments])


@pytest.mark.parametrize(
    ("number", "flags"),
    [(signal.SIGINT, []), (signal.SIGTERM, ["--parallelism=2"])],
    ids=["in one process", "in two workers"],
)
def test_a_signal_stops_a_stream_with_a_savepoint_from_which_the_next_start_resumes(
    number: int, flags: list[str], tmp_path: pathlib.Path
) -> None:
    """The program exits with status 0; results are exactly once."""
    flags = [*flags, "--checkpoint_dir=kept"]
    with Stream(tmp_path, *flags) as stream:
        stream.wait_for_more_than(100)
        stream.signal(number)
        assert (0, f"{SAVED}after the pipeline: CANCELLED\n") == (stream.ended(), stream.log)
    newest = checkpoints("list", tmp_path / "kept").output.splitlines()[1]
    assert "savepoint" in newest
    written = len(stream.rows("numbers"))

    with Stream(tmp_path, *flags) as stream:
        stream.wait_for_more_than(written)
        assert "the job has ended: DRAINED\n" == checkpoints("drain", tmp_path / "kept").output
        assert (0, "after the pipeline: DRAINED\n") == (stream.ended(), stream.log)
        check_results(stream)


LOGGED = "penstock: the pipeline stops; the next start resumes from its logs; a second signal ends it at once\n"


def staged(directory: pathlib.Path) -> list[str]:
    """Return the staging tables and directories that are left."""
    connection = sqlite3.connect(directory / "out.db")
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    connection.close()
    return [name for name in tables if "staged" in name or "net" in name] + [
        path.name for path in directory.glob(".*.penstock-*")
    ]


@pytest.mark.parametrize(
    ("delivery", "flags"),
    [("barriers", []), ("strong", []), ("strong", ["--parallelism=2"])],
    ids=["barriers", "strong in one process", "strong in two workers"],
)
def test_a_stream_that_a_signal_stops_leaves_nothing_staged(
    delivery: str, flags: list[str], tmp_path: pathlib.Path
) -> None:
    """The message names what the next start resumes from; readers may remove published output."""
    flags = [*flags, "--checkpoint_dir=kept", f"--delivery={delivery}"]
    with Stream(tmp_path, *flags) as stream:
        stream.wait_for_more_than(100)
        stream.signal(signal.SIGTERM)
        told = SAVED if delivery == "barriers" else LOGGED
        assert (0, f"{told}after the pipeline: CANCELLED\n") == (stream.ended(), stream.log)
    written = len(stream.rows("numbers"))
    assert [] == staged(tmp_path)
    first = sorted(tmp_path.glob("lines*"))
    lines = [int(line) for path in first for line in path.read_text().split()]
    for path in first:
        path.unlink()

    with Stream(tmp_path, *flags) as stream:
        stream.wait_for_more_than(written)
        assert "the job has ended: DRAINED\n" == checkpoints("drain", tmp_path / "kept").output
        assert 0 == stream.ended()
        check_results(stream)
    assert [] == staged(tmp_path)
    lines += [int(line) for path in tmp_path.glob("lines*") for line in path.read_text().split()]
    assert [n for n, _ in stream.rows("numbers")] == sorted(lines)


def test_a_signal_to_the_process_group_does_not_kill_the_workers(tmp_path: pathlib.Path) -> None:
    """As a service manager, or `timeout`, sends it: the job stops with a savepoint."""
    with Stream(tmp_path, "--parallelism=2", "--checkpoint_dir=kept", leads=True) as stream:
        stream.wait_for_more_than(100)
        os.killpg(stream.process.pid, signal.SIGTERM)
        assert (0, f"{SAVED}after the pipeline: CANCELLED\n") == (stream.ended(), stream.log)


def test_without_a_checkpoint_dir_a_signal_drains_the_stream(tmp_path: pathlib.Path) -> None:
    """The next start could not resume, so the records that were read are processed."""
    with Stream(tmp_path) as stream:
        stream.wait_for_more_than(100)
        stream.signal(signal.SIGTERM)
        assert (0, f"{DRAINED}after the pipeline: DRAINED\n") == (stream.ended(), stream.log)
        check_results(stream)


STUCK = """
import time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def stay(n):
    print("stuck", flush=True)
    time.sleep(1000)

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions()) as p:
        _ = p | beam.PeriodicImpulse() | beam.Map(stay)
"""


@pytest.mark.parametrize("flags", [[], ["--parallelism=2"]], ids=["in one process", "in two workers"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_the_program_at_once(number: int, flags: list[str], tmp_path: pathlib.Path) -> None:
    """Even if a user function never returns; the first signal waits for it."""
    with RunningProgram(tmp_path, STUCK, "--checkpoint_dir=kept", *flags) as program:
        program.wait_until(lambda: "stuck" in program.log, "an element")
        program.signal(number)
        program.wait_until(lambda: "stops with a savepoint" in program.log, "the first signal")
        program.signal(number)
        code = program.ended()
    # As any program ends: killed by SIGTERM, or with the traceback of KeyboardInterrupt.
    assert code == (-signal.SIGTERM if number == signal.SIGTERM else -signal.SIGINT)


def test_handlers_are_restored_afterwards() -> None:
    """Both after a signal, and if there was none."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    heard: list[str] = []
    for signals in ([], [signal.SIGTERM], [signal.SIGINT]):
        with stopping_on_signals(lambda: heard.append("stop")):
            for number in signals:
                signal.raise_signal(number)
        assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    assert ["stop", "stop"] == heard


def test_a_programs_own_handler_stays() -> None:
    """The program decides what its signals do."""
    heard: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("own"))
    try:
        with stopping_on_signals(lambda: heard.append("stop")):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ["own"] == heard


def test_outside_the_main_thread_no_handler_is_set() -> None:
    """Python allows it in the main thread only."""
    found: list[Any] = []

    def look() -> None:
        with stopping_on_signals(lambda: None):
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert [before] == found


def started(directory: pathlib.Path, **flags: Any) -> Any:
    """Start a stream in the background."""
    p = beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.05, checkpoint_dir=str(directory), **flags))
    _ = p | beam.io.GenerateSequence(0, None, 500, 1) | beam.Map(lambda n: n)
    return p.run()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_savepoint_is_taken_without_stopping(parallelism: int, tmp_path: pathlib.Path) -> None:
    """By its result, and by a command; both are in the list, and the stream runs on."""
    result = started(tmp_path / "kept", parallelism=parallelism)
    first = result.savepoint()
    ran = checkpoints("savepoint", tmp_path / "kept")
    assert (0, "RUNNING") == (ran.exit_code, result.state)
    second = int(ran.output.removeprefix("savepoint of epoch "))
    assert "CANCELLED" == result.cancel()
    listed = [line.split()[:2] for line in checkpoints("list", tmp_path / "kept").output.splitlines()]
    assert [[str(second), "savepoint"], [str(first), "savepoint"]] == [row for row in listed if row[1] == "savepoint"]
    assert [] == list((tmp_path / "kept").glob("request-*")) + list((tmp_path / "kept").glob("answer-*"))


def test_a_command_stops_a_stream_with_a_savepoint(tmp_path: pathlib.Path) -> None:
    """The command acts as SIGTERM does, from any host that can write to the directory."""
    result = started(tmp_path / "kept")
    result.savepoint()
    assert "the job has ended: CANCELLED\n" == checkpoints("savepoint", tmp_path / "kept", "--stop").output
    assert "CANCELLED" == result.wait_until_finish()
    assert "savepoint" == checkpoints("list", tmp_path / "kept").output.splitlines()[1].split()[1]


def test_a_command_cancels_a_stream(tmp_path: pathlib.Path) -> None:
    """At once, without a savepoint."""
    result = started(tmp_path / "kept")
    result.savepoint()
    assert "the job has ended: CANCELLED\n" == checkpoints("cancel", tmp_path / "kept").output
    assert "CANCELLED" == result.wait_until_finish()


def test_without_a_running_job_a_command_says_so_and_leaves_nothing(tmp_path: pathlib.Path) -> None:
    """Otherwise the next run could execute it."""
    result = started(tmp_path / "kept")
    result.stop_with_savepoint()
    before = sorted(tmp_path.rglob("*"))
    ran = checkpoints("drain", tmp_path / "kept", "--timeout=0.3")
    message = (
        f"PenstockError: {tmp_path}/kept: no job has received the request, which is withdrawn: the last run has ended: "
        "CANCELLED; expected the --checkpoint_dir of a running job\n"
    )
    assert (1, message) == (ran.exit_code, ran.output)
    assert before == sorted(tmp_path.rglob("*"))


def test_without_checkpoints_no_request_is_written(tmp_path: pathlib.Path) -> None:
    """A mistyped directory isn't created."""
    ran = checkpoints("drain", tmp_path / "ketp", "--timeout=0.3")
    expected = f"{tmp_path}/ketp: no checkpoints are here; expected a running job's --checkpoint_dir"
    assert (1, f"PenstockError: {expected}\n") == (ran.exit_code, ran.output)
    assert [] == list(tmp_path.iterdir())


def put(directory: pathlib.Path, content: str, mode: int) -> pathlib.Path:
    """Write a request atomically, as another user might."""
    unfinished, path = directory / "unfinished", directory / "request-1"
    unfinished.write_text(content)
    unfinished.chmod(mode)
    return unfinished.rename(path)


def test_requests_to_an_earlier_run_are_not_executed(tmp_path: pathlib.Path) -> None:
    """Its client has exited long since."""
    result = started(tmp_path / "kept")
    result.stop_with_savepoint()
    earlier = json.loads((tmp_path / "kept" / "run").read_text())["id"]
    put(tmp_path / "kept", json.dumps({"wish": "cancel", "run": earlier}), 0o600)
    result = started(tmp_path / "kept")
    wait_until((tmp_path / "kept" / "answer-1").exists, "an answer")
    result.savepoint()
    assert "RUNNING" == result.state
    result.cancel()
    answer = {"is_done": False, "text": "it was addressed to a run that has ended", "epoch": None}
    assert {**answer, "is_misdirected": True} == json.loads((tmp_path / "kept" / "answer-1").read_text())


@pytest.mark.parametrize("delivery", ["barriers", "strong"])
def test_a_command_given_while_a_job_starts_is_executed(delivery: str, tmp_path: pathlib.Path) -> None:
    """The request waits for the run, even before the directory exists."""
    ran: list[Any] = []
    command = threading.Thread(target=lambda: ran.append(checkpoints("drain", tmp_path / "kept")))
    command.start()
    result = started(tmp_path / "kept", delivery=delivery)
    check_drained(result, command, ran)


def check_drained(result: Any, command: threading.Thread, ran: Sequence[Any]) -> None:
    """The command ends with the job, which it has drained."""
    command.join()
    assert "the job has ended: DRAINED\n" == ran[0].output
    assert "DRAINED" == result.wait_until_finish()


def test_a_command_finds_the_run_that_follows_a_killed_one(tmp_path: pathlib.Path) -> None:
    """The files of a killed run neither take the request nor lose it."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / "kept").mkdir(0o700)
    left = {"id": "a1", "host": socket.gethostname(), "pid": gone.pid, "ended": None}
    (tmp_path / "kept" / "run").write_text(json.dumps(left))
    ran: list[Any] = []
    command = threading.Thread(target=lambda: ran.append(checkpoints("drain", tmp_path / "kept")))
    command.start()
    wait_until(lambda: list((tmp_path / "kept").glob("request-*")), "a request to the killed run")
    result = started(tmp_path / "kept")
    check_drained(result, command, ran)


def test_a_killed_run_is_known_to_be_gone(tmp_path: pathlib.Path) -> None:
    """The client's error says that the request was not received."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = {"id": "a1", "host": socket.gethostname(), "pid": gone.pid, "ended": None}
    (tmp_path / "run").write_text(json.dumps(left))
    ran = checkpoints("drain", tmp_path, "--timeout=0.3")
    message = (
        f"PenstockError: {tmp_path}: no job has received the request, which is withdrawn: the last run was in process "
        f"{gone.pid} on {socket.gethostname()}, which no longer runs; expected the --checkpoint_dir of a running job\n"
    )
    assert (1, message, ["run"]) == (ran.exit_code, ran.output, [path.name for path in tmp_path.iterdir()])


def test_a_drain_of_a_job_that_was_stopped_otherwise_has_failed(tmp_path: pathlib.Path) -> None:
    """The answer says how the job has ended, and the command fails."""
    result = started(tmp_path / "kept")
    result.savepoint()
    run = json.loads((tmp_path / "kept" / "run").read_text())["id"]
    for id, wish in ("1", "cancel"), ("2", "drain"):
        unfinished = tmp_path / "kept" / "unfinished"
        unfinished.write_text(json.dumps({"wish": wish, "run": run}))
        unfinished.chmod(0o600)
        unfinished.rename(tmp_path / "kept" / f"request-{id}")
    result.wait_until_finish()
    answers = [json.loads((tmp_path / "kept" / f"answer-{id}").read_text()) for id in "12"]
    assert [(True, "the job has ended: CANCELLED"), (False, "the job has ended: CANCELLED")] == [
        (answer["is_done"], answer["text"]) for answer in answers
    ]


def test_a_malformed_request_is_logged(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """The stream continues."""
    result = started(tmp_path / "kept")
    result.savepoint()
    path = put(tmp_path / "kept", '{"wish": "explode", "run": "a1"}', 0o600)
    wait_until(lambda: caplog.records, "a look at the request")
    result.savepoint()
    assert [f"{path}: not a request: Invalid enum value 'explode' - at `$.wish`"] == [
        r.getMessage() for r in caplog.records
    ]
    result.cancel()


def test_an_untrusted_request_is_not_executed(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """As untrusted checkpoints are not read."""
    result = started(tmp_path / "kept")
    result.savepoint()
    path = put(tmp_path / "kept", '"cancel"', 0o666)
    wait_until(lambda: caplog.records, "a look at the request")
    result.savepoint()
    why = f"{path} can be written by others (its mode is 0666)"
    assert [f"{path}: not executed, because {why}"] == [r.getMessage() for r in caplog.records]
    result.cancel()


def test_a_savepoint_of_a_job_that_has_ended_is_an_error(tmp_path: pathlib.Path) -> None:
    """It doesn't wait forever."""
    result = started(tmp_path / "kept")
    result.cancel()
    with pytest.raises(PenstockError) as error:
        result.savepoint()
    assert "no savepoint was taken: the job has ended, CANCELLED" == str(error.value)


def test_a_stopped_bounded_pipeline_resumes_from_its_savepoint(tmp_path: pathlib.Path) -> None:
    """The job runs in the main thread; its state is not DONE."""
    program = """
import os
import time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def row(n):
    if n == 0:
        print("seen", flush=True)
        while not os.path.exists("told"):
            time.sleep(0.01)
        # The job looks up after a twentieth of a second.
        time.sleep(0.1)
    return {"n": n}

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.05)) as p:
        # More bundles than are read before the job looks up.
        numbers = [p | f"Create {i}" >> beam.Create(range(30 * i, 30 * i + 30)) for i in range(20)] | beam.Flatten()
        _ = numbers | beam.Map(row) | beam.io.WriteToSQLite("out.db", "numbers", columns=["n"], count_column="times")
    print("after the pipeline:", p.result.state)
"""
    with RunningProgram(tmp_path, program, "--checkpoint_dir=kept") as running:
        running.wait_until(lambda: "seen" in running.log, "an element")
        running.signal(signal.SIGTERM)
        (tmp_path / "told").touch()
        assert 0 == running.ended()
        state = running.log.splitlines()[-1]
    with RunningProgram(tmp_path, program, "--checkpoint_dir=kept") as running:
        assert 0 == running.ended()
        assert "after the pipeline: DONE" == running.log.splitlines()[-1]
    rows = sqlite3.connect(tmp_path / "out.db").execute("SELECT n, times FROM numbers ORDER BY n").fetchall()
    assert [(n, 1) for n in range(600)] == rows
    assert "after the pipeline: CANCELLED" == state
