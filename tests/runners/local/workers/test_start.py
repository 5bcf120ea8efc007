"""Start of workers: what they have of the program, and what becomes of the template process."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.programs.running_program import RunningProgram, wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import OptionsError, SerializationError

METHODS = ["forkserver", "spawn"]

# A first run starts the template.  Everything is changed after it.
CHANGED = """
import locale, logging, os, resource, sys, time, warnings
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def run(function):
    with beam.Pipeline(options=PipelineOptions()) as p:
        _ = p | beam.Create([1], reshuffle=False) | beam.Map(function)

class Shouting(logging.Formatter):
    def format(self, record):
        return super().format(record).upper()

class Rare(UserWarning):
    pass

def said(_):
    import warnings
    import beside
    logging.getLogger("loud").debug("from a worker")
    logging.getLogger("quiet").warning("not to be seen")
    logging.getLogger("file").warning("to the file")
    try:
        warnings.warn("rare", Rare)
    except Rare:
        print("an error")
    print(
        os.environ.get("SET"), os.environ.get("UNSET"), time.localtime(0).tm_hour, os.getcwd() == os.environ["THERE"],
        beside.NAME, sys.argv[-1], sys.getrecursionlimit(), resource.getrlimit(resource.RLIMIT_CORE)[0],
        locale.setlocale(locale.LC_NUMERIC), sys.stdin.read() == "", os.getpriority(os.PRIO_PROCESS, 0) - NICE,
    )
    os.makedirs("made")

os.environ["UNSET"] = "1"
run(lambda _: None)
NICE = os.getpriority(os.PRIO_PROCESS, 0)
os.mkdir("there")
os.chdir("there")
with open("beside.py", "w") as file:
    file.write("NAME = 'beside'")
sys.path.insert(0, "")
os.environ.update(SET="set", TZ="Etc/GMT-5", THERE=os.getcwd())
del os.environ["UNSET"]
time.tzset()
sys.argv.append("--an-argument")
sys.setrecursionlimit(1234)
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
locale.setlocale(locale.LC_NUMERIC, "C.UTF-8")
os.umask(0o027)
os.nice(1)
warnings.simplefilter("error", Rare)
handler = logging.StreamHandler()
handler.setFormatter(Shouting("%(name)s: %(message)s"))
logging.getLogger("loud").addHandler(handler)
logging.getLogger("loud").setLevel(logging.DEBUG)
logging.getLogger("quiet").setLevel(logging.ERROR)
logging.getLogger("file").addHandler(logging.FileHandler("records"))
logging.getLogger("file").propagate = False
output = os.open("output", os.O_CREAT | os.O_WRONLY)
os.dup2(output, 1)
os.close(output)
run(said)
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_has_the_settings_that_the_program_has_when_the_run_starts(
    method: str, tmp_path: pathlib.Path
) -> None:
    """Also those that have changed since the template process was started."""
    with RunningProgram(tmp_path, CHANGED, "--parallelism=2", f"--start_method={method}") as program:
        assert 0 == program.ended(), program.log
    there = tmp_path / "there"
    expected = "an error\nset None 5 True beside --an-argument 1234 0 C.UTF-8 True 1\n"
    assert (expected, "LOUD: FROM A WORKER\n", "to the file\n", 0o750) == (
        (there / "output").read_text(),
        program.log,
        (there / "records").read_text(),
        (there / "made").stat().st_mode & 0o777,
    )


QUEUED = """
import logging, logging.handlers, queue
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

records = queue.SimpleQueue()
listener = logging.handlers.QueueListener(records, logging.StreamHandler())
logging.basicConfig(level=logging.INFO, handlers=[logging.handlers.QueueHandler(records)])
listener.start()

def log(_):
    logging.info("from a worker")

with beam.Pipeline(options=PipelineOptions()) as p:
    _ = p | beam.Create([1]) | beam.Map(log)
listener.stop()
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_logs_to_the_standard_error_what_the_program_logs_to_a_queue(
    method: str, tmp_path: pathlib.Path
) -> None:
    """Its thread isn't in the worker."""
    with RunningProgram(tmp_path, QUEUED, "--parallelism=2", f"--start_method={method}") as program:
        assert 0 == program.ended(), program.log
    assert "INFO:root:from a worker\n" == program.log


class OfALock(beam.io.BoundedSource):
    """A source that may have something that can't be pickled."""

    lock: Any = None

    def split(self, desired_splits: int) -> Sequence[int]:
        return [0]

    def read(self, split: int) -> Iterator[int]:
        yield split


@pytest.mark.parametrize("method", METHODS)
def test_a_source_that_cannot_be_pickled_is_refused_when_the_run_starts(method: str) -> None:
    """With its transform, and what to do."""
    p, source = beam.Pipeline(options=PipelineOptions([], parallelism=2, start_method=method)), OfALock()
    _ = p | "Locked" >> beam.io.Read(source) | beam.Map(str)
    # It could be when the transform was applied.
    source.lock = threading.Lock()
    with pytest.raises(SerializationError) as error:
        p.run()
    assert str(error.value).startswith("Locked: attribute 'lock' of OfALock (lock) can't be pickled")
    assert "DoFn.setup" in str(error.value)


class Noting(beam.io.BoundedSource):
    """A source that notes when it is pickled."""

    def __init__(self, notes: pathlib.Path) -> None:
        self.notes = notes

    def split(self, desired_splits: int) -> Sequence[int]:
        return range(desired_splits)

    def read(self, split: int) -> Iterator[int]:
        yield split

    def __reduce__(self) -> tuple[Any, ...]:
        with self.notes.open("a") as file:
            file.write("pickled\n")
        return Noting, (self.notes,)


def test_work_that_is_the_same_for_all_workers_is_pickled_once(tmp_path: pathlib.Path) -> None:
    """It may have a million values."""
    with beam.Pipeline(options=PipelineOptions([], parallelism=3)) as p:
        _ = p | beam.io.Read(Noting(tmp_path / "notes")) | beam.Map(str)
        # A transform has tried whether it can be.
        (tmp_path / "notes").unlink()
    assert "pickled\n" == (tmp_path / "notes").read_text()


CANNOT_BE_IMPORTED = """
import beside
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

with beam.Pipeline(options=PipelineOptions()) as p:
    _ = p | beam.Create([1]) | beam.Map(beside.doubled)
"""
BESIDE = """
import json, os
if os.getpid() != int(open("starter").read() or os.getpid()):
    raise LookupError("no configuration")
open("starter", "w").write(str(os.getpid()))

def doubled(n):
    return 2 * n
"""


@pytest.mark.parametrize("flags", [[], ["--streaming", "--max_restarts=0"]], ids=["batch", "stream"])
@pytest.mark.parametrize("method", METHODS)
def test_a_module_that_workers_cannot_import_is_reported(method: str, flags: list[str], tmp_path: pathlib.Path) -> None:
    """By the module's own error."""
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "starter").touch()
    flags = ["--parallelism=2", f"--start_method={method}", *flags]
    with RunningProgram(tmp_path, CANNOT_BE_IMPORTED, *flags) as program:
        assert 1 == program.ended(), program.log
    (*_, error) = program.log.splitlines()
    assert (
        "SerializationError: a worker can't load the pipeline: LookupError: no configuration; workers import" in error
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"start_method": "fork"}, "option --start_method: a fork of the program would have the locks"),
        ({"start_method": "thread"}, "option --start_method: expected 'forkserver' or 'spawn', got 'thread'"),
        ({"worker_start": "spawn"}, "unknown option 'worker_start'; did you mean start_method?"),
    ],
)
def test_other_start_methods_are_refused(flags: dict[str, Any], message: str) -> None:
    """With the reason."""
    with pytest.raises(OptionsError) as error:  # noqa: SIM117
        with beam.Pipeline(options=PipelineOptions([], parallelism=2, **flags)) as p:
            _ = p | beam.Create([1])
    assert str(error.value).startswith(message)


def test_the_former_flag_is_refused_on_the_command_line() -> None:
    """Though a program may have flags of its own."""
    program = "import penstock as beam; beam.Pipeline(options=beam.options.pipeline_options.PipelineOptions())"
    command = [sys.executable, "-c", program, "--worker_start=spawn"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "unknown option --worker_start; did you mean --start_method?" in done.stderr


# ---------------------------------------------------------------- the template process

# Prints the template's process id, and those of descriptors and threads that it has while a worker looks.
RUNS = """
import os, signal, sys
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

kept = os.open("kept", os.O_CREAT | os.O_RDONLY)
os.set_inheritable(kept, True)

def look(_):
    template = os.getppid()
    folder = f"/proc/{template}/fd"
    files = {os.readlink(f"{folder}/{name}").partition(":")[0] for name in os.listdir(folder)}
    print(template, len(os.listdir(f"/proc/{template}/task")), *sorted(files), flush=True)

def run():
    with beam.Pipeline(options=PipelineOptions()) as p:
        _ = p | beam.Create([1]) | beam.Map(look)

run()
"""


def lines_of(program: RunningProgram) -> list[list[str]]:
    return [line.split() for line in program.log.splitlines()]


def test_a_template_serves_several_runs_with_one_thread_and_no_file_of_the_program(tmp_path: pathlib.Path) -> None:
    """It is the same process, and could be forked safely."""
    with RunningProgram(tmp_path, RUNS + "run()", "--parallelism=2") as program:
        assert 0 == program.ended(), program.log
    first, second = lines_of(program)
    assert first == second
    assert ["1", "/dev/null", "socket"] == first[1:]


def test_a_template_that_was_killed_is_replaced(tmp_path: pathlib.Path) -> None:
    """At the next run."""
    again = "os.kill(int(open('pipeline.py.log').read().split()[0]), signal.SIGKILL)\nrun()"
    with RunningProgram(tmp_path, RUNS + again, "--parallelism=2") as program:
        assert 0 == program.ended(), program.log
    first, second = lines_of(program)
    assert first[0] != second[0]


def test_a_forked_program_has_a_template_of_its_own(tmp_path: pathlib.Path) -> None:
    """And that of its parent serves on."""
    forked = """
pid = os.fork()
if pid == 0:
    run()
    sys.exit()
assert os.waitpid(pid, 0)[1] == 0
run()
"""
    with RunningProgram(tmp_path, RUNS + forked, "--parallelism=2") as program:
        assert 0 == program.ended(), program.log
    first, second, third = (line[0] for line in lines_of(program))
    assert first == third != second


WAITS = """
import os, time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def wait(_):
    print(os.getppid(), os.getpid(), flush=True)
    time.sleep(1000)

with beam.Pipeline(options=PipelineOptions()) as p:
    _ = p | beam.Create([1]) | beam.Map(wait)
"""


def is_gone(pid: int) -> bool:
    """Return True for a process that has ended, though nobody may have waited for it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_template_and_workers_end_with_a_program_that_is_killed(tmp_path: pathlib.Path) -> None:
    """Whatever the worker does."""
    with RunningProgram(tmp_path, WAITS, "--parallelism=2") as program:
        program.wait_until(lambda: lines_of(program), "the worker")
        ((template, worker),) = lines_of(program)
        program.process.kill()
        wait_until(lambda: is_gone(int(template)) and is_gone(int(worker)), "the end of template and worker")


def test_workers_end_with_their_template_and_are_replaced(tmp_path: pathlib.Path) -> None:
    """By those of another one."""
    with RunningProgram(tmp_path, WAITS, "--parallelism=2") as program:
        program.wait_until(lambda: lines_of(program), "the worker")
        template, worker = lines_of(program)[0]
        os.kill(int(template), signal.SIGKILL)
        program.wait_until(lambda: is_gone(int(worker)), "the end of the worker")
        program.wait_until(lambda: len([line for line in lines_of(program) if len(line) == 2]) == 2, "another worker")
        assert "was killed by SIGKILL" in program.log
        program.process.kill()


# ---------------------------------------------------------------- programs that can't be forked

BUSY = pathlib.Path(__file__).resolve().parents[3] / "starts" / "busy_program.py"


@pytest.mark.parametrize(("method", "runs"), [("forkserver", 5), ("spawn", 2)])
def test_a_program_with_a_thousand_threads_and_held_locks_runs_pipelines_in_workers(method: str, runs: int) -> None:
    """`make starts` does it 200 times."""
    command = [sys.executable, str(BUSY), str(runs), f"--start_method={method}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert (0, [str(n) for n in range(1, runs + 1)]) == (done.returncode, done.stdout.split()), done.stderr
