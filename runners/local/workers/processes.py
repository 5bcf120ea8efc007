"""Worker processes of a run: started, listened to, replaced and killed."""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from ....sdk.errors import OptionsError, UserCodeError
from ....sdk.options import StreamingOptions
from ....sdk.redaction import logger_of
from ...execution.error_transport import RemoteError, local, remote
from ...execution.gc_tuning import look_rarely_for_garbage
from ...execution.streaming_options import parallelism_of, start_method_of
from ...execution.stuck_calls import Returned, Stuck
from ...execution.user_errors import as_exception
from .handover import Work, hand_over, pickled_work
from .heartbeats import SILENCE, Heartbeats
from .interpreter import ignore_signals
from .start import STARTS, Process

_logger = logger_of(__name__)

# The files that a program may have open besides those of its workers.
_OTHER_FILES = 1024


class WorkerDied(Exception):
    """A worker has ended, or hangs; the text says how.

    Attributes:
      number: the worker's; None if it isn't known.
    """

    def __init__(self, text: str, number: int | None = None) -> None:
        super().__init__(text)
        self.number = number


class WorkerProcesses:
    """Worker processes, each with a pipe for commands and reports.

    Args:
      slots: how many there are.
      timeout: seconds without a heartbeat after which a worker is given up.
      start_method: "forkserver" or "spawn".
    """

    def __init__(self, slots: int, timeout: float, start_method: str = "forkserver") -> None:
        self.slots = slots
        self._timeout = timeout
        self._begin = STARTS[start_method]
        self._processes: list[Process] = []
        self._controls: list[Connection] = []
        self._beats: Heartbeats | None = None
        self._silent: set[int] = set()
        self._stuck: dict[int, Stuck] = {}

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [process.pid for process in self._processes]

    def _start_all(self, works: Sequence[Work]) -> None:
        """Start all processes.

        Raises `SerializationError` for work that can't be pickled, and `OptionsError` for more processes than the
        system starts.
        """
        # Workers may all have the same.
        pickled = {number: pickled_work(work) for number, work in {id(work): work for work in works}.items()}
        self._beats = Heartbeats(self.slots)
        self._silent, self._stuck = set(), {}
        with self._limits(4 * self.slots):
            for work in works:
                self._start(work)
        for number, work in enumerate(works):
            hand_over(self._controls[number], number, self.slots, pickled[id(work)], work.sockets)

    @contextmanager
    def _limits(self, files: int) -> Iterator[None]:
        """Let this process open so many files more, if the system permits it, while it starts workers.

        Raises `OptionsError` for files or processes beyond the system's limits.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = files + _OTHER_FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(OSError, ValueError):
                resource.setrlimit(
                    resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
                )
        try:
            yield
        except OSError as error:
            raise OptionsError(
                f"options --parallelism, --workers: the system refuses files or processes of {self.slots} workers "
                f"({error}); ask for fewer, or raise its limits (ulimit -n, which is {soft}, needs {wanted}; ulimit -u)"
            ) from error

    def _start(self, work: Work, number: int | None = None) -> None:
        """Start a process, in the place of one that was buried if there is a number."""
        assert self._beats is not None
        ours, theirs = Pipe()
        # The worker's end is closed here, so that its death is seen, however little it has read.
        with theirs:
            process = self._begin(work.run.__module__, theirs, self._beats)
        if number is None:
            self._processes.append(process)
            self._controls.append(ours)
        else:
            self._processes[number], self._controls[number] = process, ours

    def _replace(self, number: int, work: Work) -> None:
        """Start a process in the place of one that was buried."""
        assert self._beats is not None
        pickled = pickled_work(work)
        self._beats.begin(number)
        self._start(work, number)
        hand_over(self._controls[number], number, self.slots, pickled, work.sockets)

    def _receive(self, seconds: float, stopped: Collection[int] = ()) -> list[tuple[int, Any]]:
        """Return messages with the numbers of their workers, after at most so many seconds.

        Args:
          stopped: workers that are not listened to.

        Raises `WorkerDied` for a pipe that has ended, unless others have sent something: then the next time; and
        `SerializationError` for a worker that can't load its work.
        """
        messages: list[tuple[int, Any]] = []
        for ready in wait([control for i, control in enumerate(self._controls) if i not in stopped], seconds):
            number = self._controls.index(ready)  # type: ignore[arg-type]
            try:
                while self._controls[number].poll():
                    message = self._controls[number].recv()
                    if isinstance(message, RemoteError):
                        # It has not begun.
                        raise local(message)
                    messages.append((number, message))
            except (EOFError, OSError):
                if messages:
                    return messages
                raise self._died(number) from None
        return messages

    def _check_heartbeats(self, stopped: Collection[int] = ()) -> None:
        """Warn of workers that have fallen silent.  Raises `WorkerDied` for one that hangs."""
        assert self._beats is not None
        for number, silence in enumerate(self._beats.silences()):
            if number in stopped:
                continue
            name = f"worker {number} (pid {self.pids[number]})"
            if silence >= self._timeout:
                raise WorkerDied(f"{name} hangs: no heartbeat for {silence:.1f} s (--worker_timeout)", number)
            if silence >= SILENCE and number not in self._silent:
                self._silent.add(number)
                _logger.warning(
                    "%s sends no heartbeat; it is killed after %g s (--worker_timeout)", name, self._timeout
                )
            elif silence < SILENCE and number in self._silent:
                self._silent.remove(number)
                _logger.warning("%s sends heartbeats again", name)

    def _note_stuck(self, number: int, report: Stuck | Returned) -> None:
        """Note, and log, that a call of a worker hangs, or has returned."""
        if isinstance(report, Stuck):
            self._stuck[number] = report
        else:
            self._stuck.pop(number, None)
        _logger.warning("worker %d (pid %d): %s", number, self.pids[number], report)

    def stuck_steps(self) -> list[str]:
        return [f"{stuck.step!r} in worker {number}" for number, stuck in sorted(dict(self._stuck).items())]

    def stuck(self) -> list[str]:
        return [f"worker {number} (pid {self.pids[number]}): {stuck}" for number, stuck in sorted(self._stuck.items())]

    def _bury(self, number: int) -> None:
        """Kill a worker, and close its pipe."""
        process = self._processes[number]
        _kill(process)
        process.join()
        process.close()
        self._controls[number].close()
        self._silent.discard(number)
        self._stuck.pop(number, None)

    def _died(self, number: int) -> WorkerDied:
        process = self._processes[number]
        process.join(1)
        code = process.exitcode
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                how += " (the kernel kills a process so when memory runs out: see dmesg)"
        else:
            how = f"exited unexpectedly with status {code} (does user code call os._exit?)"
        return WorkerDied(f"worker {number} (pid {process.pid}) {how}", number)

    def kill(self) -> None:
        for process in list(self._processes):
            _kill(process)

    def end(self) -> None:
        self.kill()
        for process in self._processes:
            # An interrupted call may have closed it.
            with suppress(OSError, ValueError):
                process.join()
                process.close()
        for control in self._controls:
            control.close()
        self._processes, self._controls = [], []
        if self._beats is not None:
            self._beats.close()
            self._beats = None


def _kill(process: Process) -> None:
    # Its end may have been seen, by another thread or an interrupted call.
    with suppress(OSError, ValueError):
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)


def run_worker(loop: Callable[[], None], report: Callable[[RemoteError], None]) -> None:
    """Run a worker's loop in its process, report an error that it raises, and exit."""
    # The program's modules may have set handlers.
    ignore_signals()
    try:
        _print_whole_lines()
        look_rarely_for_garbage()
        loop()
    except BaseException as error:
        # The end of the job's process, unless user code has raised it.
        is_over = isinstance(error, (BrokenPipeError, ConnectionResetError, EOFError))
        if not is_over or isinstance(error, UserCodeError):
            with suppress(OSError):
                report(remote(as_exception(error)))
    sys.stdout.flush()
    sys.stderr.flush()
    # Exit handlers don't run here.
    os._exit(0)


def _print_whole_lines() -> None:
    # Unbuffered, `print` writes a text and the end of its line apart, and another worker's text gets between them.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.write_through:
            stream.reconfigure(line_buffering=True, write_through=False)


def slots_of(streaming: StreamingOptions) -> int:
    """Return how many processes the flags ask for, of which each has work."""
    parallelism, workers = parallelism_of(streaming), streaming.workers
    slots = min(workers or parallelism, parallelism)
    if workers is not None and workers > slots:
        _logger.warning("--workers=%d: only %d of them would have work, with --parallelism=%d", workers, slots, slots)
    return int(slots)


def start_of(slots: int, streaming: StreamingOptions) -> str:
    """Return how processes start, "forkserver" or "spawn".  Raises `OptionsError` where they can't."""
    if sys.platform == "win32":
        raise OptionsError(
            f"option --workers: {slots} processes were asked for, but on Windows pipes can't be handed on; "
            "expected --workers=1, with any --parallelism"
        )
    return start_method_of(streaming)
