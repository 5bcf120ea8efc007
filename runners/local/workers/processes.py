"""Worker processes of a run: started by fork or spawn, listened to, replaced and killed."""

from __future__ import annotations

import io
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

from ....sdk.errors import OptionsError, UserCodeError
from ....sdk.options import StreamingOptions
from ....sdk.redaction import logger_of
from ...execution.error_transport import RemoteError, remote
from ...execution.fork_safety import without_input
from ...execution.gc_tuning import look_rarely_for_garbage
from ...execution.streaming_options import parallelism_of
from ...execution.stuck_calls import Returned, Stuck
from ...execution.user_errors import as_exception
from .heartbeats import SILENCE, Heartbeats, end_with_parent
from .spawned import spawned

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


class Work(NamedTuple):
    """The work of a process.

    Attributes:
      run: a module's function, called with the worker's end of the pipe to the job, the sockets, and the arguments.
      sockets: the sockets that the process inherits.
    """

    run: Callable[..., None]
    arguments: tuple[Any, ...]
    sockets: Sequence[Any] = ()


class WorkerProcesses:
    """Worker processes, each with a pipe for commands and reports.

    Args:
      slots: how many there are.
      timeout: seconds without a heartbeat after which a worker is given up.
      start_method: "fork" or "spawn".
    """

    def __init__(self, slots: int, timeout: float, start_method: str = "fork") -> None:
        self.slots = slots
        self._timeout = timeout
        self._start_method = start_method
        self._processes: list[Any] = []
        self._controls: list[Connection] = []
        self._beats: Heartbeats | None = None
        self._silent: set[int] = set()
        self._stuck: dict[int, Stuck] = {}

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [process.pid for process in self._processes]

    def _start_all(self, works: Sequence[Work], inherited: Iterable[Any] = ()) -> None:
        """Start all processes.

        Args:
          inherited: open files of this process that a worker closes unless they are in its work.

        Raises `OptionsError` if a process is to be spawned and its work can't be pickled, and for more processes than
        the system starts.
        """
        self._beats = Heartbeats(self.slots)
        self._silent, self._stuck = set(), {}
        with self._limits(2 * self.slots):
            pipes = [Pipe() for _ in works]
            self._controls = [ours for ours, _ in pipes]
            inherited = [*(end for pair in pipes for end in pair), *inherited]
            for number, (work, (_, theirs)) in enumerate(zip(works, pipes, strict=True)):
                self._processes.append(self._start(number, work, theirs, inherited))
        for _, theirs in pipes:
            theirs.close()

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

    def _replace(self, number: int, work: Work, inherited: Iterable[Any] = ()) -> None:
        """Start a process in the place of one that was buried; the arguments are those of `_start_all`."""
        assert self._beats is not None
        self._beats.begin(number)
        self._controls[number], theirs = Pipe()
        inherited = [*(control for control in self._controls if not control.closed), *inherited]
        self._processes[number] = self._start(number, work, theirs, inherited)
        theirs.close()

    def _start(self, number: int, work: Work, theirs: Connection, inherited: Iterable[Any]) -> Any:
        beats = self._beats
        assert beats is not None
        if self._start_method == "spawn":
            return spawned(number, work.run, work.arguments, work.sockets, self._controls[number], theirs, beats)
        own = {id(theirs), *map(id, work.sockets)}
        parent = os.getpid()

        def run() -> None:
            end_with_parent(parent)
            for end in inherited:
                if id(end) not in own:
                    end.close()
            beats.beat_on(number)
            work.run(theirs, work.sockets, *work.arguments)

        context = multiprocessing.get_context("fork")
        process = context.Process(target=run, name=f"penstock worker {number}", daemon=True)
        with without_input(), _children_permitted():
            process.start()
        return process

    def _receive(self, seconds: float, stopped: Collection[int] = ()) -> list[tuple[int, Any]]:
        """Return messages with the numbers of their workers, after at most so many seconds.

        Args:
          stopped: workers that are not listened to.

        Raises `WorkerDied` for a pipe that has ended, unless others have sent something: then the next time.
        """
        messages: list[tuple[int, Any]] = []
        for ready in wait([control for i, control in enumerate(self._controls) if i not in stopped], seconds):
            number = self._controls.index(ready)  # type: ignore[arg-type]
            try:
                while self._controls[number].poll():
                    messages.append((number, self._controls[number].recv()))
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
        with suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)
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
            # Its end may have been seen meanwhile.
            with suppress(OSError, ValueError):
                os.kill(process.pid, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        for process in self._processes:
            # An interrupted call may have closed it.
            with suppress(ValueError):
                process.join()
                process.close()
        for control in self._controls:
            control.close()
        self._processes, self._controls = [], []
        if self._beats is not None:
            self._beats.close()
            self._beats = None


@contextmanager
def _children_permitted() -> Iterator[None]:
    """Permit children of a daemonic process, such as a worker of `multiprocessing.Pool`.

    Python forbids them since they might outlive it.  Workers end with their parent.
    """
    this = multiprocessing.current_process()
    was_daemonic = this.daemon
    if was_daemonic:
        this.daemon = False
    try:
        yield
    finally:
        if was_daemonic:
            this.daemon = True


def run_worker(loop: Callable[[], None], report: Callable[[RemoteError], None]) -> None:
    """Run a worker's loop in its process, report an error that it raises, and exit."""
    # Signals are for the process that the user started: Ctrl-C, and SIGTERM, which may be sent to a group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
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
    # Exit handlers of the parent don't run here.
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
    """Return how processes start, "fork" or "spawn".  Raises `OptionsError` where they can't."""
    if sys.platform == "win32":
        raise OptionsError(
            f"option --workers: {slots} processes were asked for, but on Windows pipes can't be handed on; "
            "expected --workers=1, with any --parallelism"
        )
    return streaming.worker_start or ("fork" if hasattr(os, "fork") else "spawn")
