"""DoFns whose `process` runs in a thread or a process of its own, so that a call may take too long or crash."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, cast

import cloudpickle

from ..names.extensions import modules_of_workers
from ..user_code.error_text import repr_of, traceback_lines
from ..user_code.serialization import dumps
from .dofn import DoFn, WrappingDoFn


class TimedDoFn(WrappingDoFn):
    """A DoFn of which each call of `process` may take `timeout` seconds, and raises `TimeoutError` after.

    The call goes on in its thread, and its outputs are dropped.

    >>> import time
    >>> from penstock.sdk.dofn.dofn import MapDoFn
    >>> TimedDoFn(MapDoFn(lambda x: x + 1), 5).process(1)
    [2]
    """

    def __init__(self, fn: DoFn, timeout: float) -> None:
        super().__init__(fn)
        self.timeout = timeout
        self._thread: _CallingThread | None = None

    def process(self, *args: Any, **kwargs: Any) -> Iterable[Any]:
        if self._thread is None:
            self._thread = _CallingThread()
        context, process = copy_context(), cast("Callable[..., Iterable[Any] | None]", self.fn.process)
        self._thread.calls.put(lambda: context.run(lambda: list(process(*args, **kwargs) or ())))
        try:
            outputs, error = self._thread.results.get(timeout=self.timeout)
        except Empty:
            self._end()
            raise TimeoutError(_late(self.timeout)) from None
        if error is not None:
            raise error
        return outputs  # type: ignore[no-any-return]

    def teardown(self) -> None:
        self._end()
        super().teardown()

    def _end(self) -> None:
        if self._thread is not None:
            self._thread.calls.put(None)
            self._thread = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_thread": None}


class _CallingThread:
    """A thread that calls functions, one after the other."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        threading.Thread(target=self._run, name="penstock timed calls", daemon=True).start()

    def _run(self) -> None:
        while (call := self.calls.get()) is not None:
            try:
                self.results.put((call(), None))
            except BaseException as error:
                self.results.put((None, error))


class SubprocessDoFn(WrappingDoFn):
    """A DoFn that runs in a process of its own, whose crash is a `BrokenProcessPool` error of the element.

    The process is started with the first element, and again after a crash or a timeout.  `setup`, `start_bundle`,
    `finish_bundle` and `teardown` run in it, too.  Metrics and the values of variables stay in it.

    Args:
      timeout: the seconds that a call of `process` may take, or None; then it raises `TimeoutError`.
    """

    def __init__(self, fn: DoFn, timeout: float | None) -> None:
        super().__init__(fn)
        self.timeout = timeout
        self._process: Any = None

    def setup(self) -> None: ...

    def start_bundle(self) -> None: ...

    def process(self, *args: Any, **kwargs: Any) -> Iterable[Any]:
        return self._call("process", (args, kwargs), self.timeout)  # type: ignore[no-any-return]

    def finish_bundle(self) -> None:
        if self._process is not None and self._call("finish_bundle"):
            raise RuntimeError(
                f"{self.default_label()}: finish_bundle gave outputs, which use_subprocess doesn't allow, since a "
                "crash would lose them"
            )

    def teardown(self) -> None:
        if self._process is not None:
            self._call("teardown")
            self._end()

    def _start(self) -> None:
        import subprocess
        from multiprocessing.connection import Pipe

        self._connection, theirs = Pipe()
        program = "import sys; sys.path[:] = sys.argv[3:]; import importlib; "
        program += "importlib.import_module(sys.argv[1]).serve(int(sys.argv[2]))"
        command = [sys.executable, "-c", program, __name__, str(theirs.fileno()), *sys.path]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        # Before the DoFn, whose module may need them.
        self._connection.send_bytes(dumps(modules_of_workers()))
        self._connection.send_bytes(dumps(self.fn, self.default_label()))

    def _call(self, method: str, arguments: Any = ((), {}), timeout: float | None = None) -> Any:
        from concurrent.futures.process import BrokenProcessPool

        try:
            if self._process is None:
                self._start()
                self._answer(None)
            call = dumps((method, *arguments), self.default_label())
            with suppress(BrokenPipeError):  # then there is no answer either
                self._connection.send_bytes(call)
            return self._answer(timeout)
        except (EOFError, ConnectionResetError):
            status = self._end()
            message = f"the process of {self.default_label()} ended with status {status} during {method}"
            raise BrokenProcessPool(message) from None

    def _answer(self, timeout: float | None) -> Any:
        if not self._connection.poll(timeout):
            self._end(0)
            raise TimeoutError(_late(timeout))
        result, error, lines = cloudpickle.loads(self._connection.recv_bytes())
        if lines:
            with suppress(Exception):  # a class may refuse attributes
                error.lines_of_its_process = lines
            raise error
        return result

    def _end(self, patience: float = 1) -> int:
        """End the process, after at most so many seconds, and return its exit status."""
        process, self._process = self._process, None
        self._connection.close()
        try:
            status: int = process.wait(patience)
        except Exception:
            process.kill()
            status = process.wait()
        return status

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_connection"} | {"_process": None}


def _late(timeout: float | None) -> str:
    return f"the call took longer than timeout={timeout} seconds"


def serve(fd: int) -> None:
    """Answer the calls of a `SubprocessDoFn`, in its process."""
    from multiprocessing.connection import Connection

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    connection = Connection(fd)
    fn: Any = None
    is_in_bundle = False
    try:
        for module in cloudpickle.loads(connection.recv_bytes()):
            import_module(module)
        while True:
            received = cloudpickle.loads(connection.recv_bytes())
            result = None
            try:
                if fn is None:
                    fn = received
                    fn.setup()
                else:
                    method, args, kwargs = received
                    if method == "process" and not is_in_bundle:
                        fn.start_bundle()
                        is_in_bundle = True
                    if method != "finish_bundle" or is_in_bundle:
                        outputs = getattr(fn, method)(*args, **kwargs)
                        result = None if outputs is None else list(outputs)
                    is_in_bundle = is_in_bundle and method == "process"
                answer = dumps((result, None, None))
            except Exception as error:
                frames = error.__traceback__
                lines = traceback_lines(error, frames.tb_next if frames else None)
                try:
                    answer = dumps((None, error, lines))
                except Exception:
                    answer = dumps((None, RuntimeError(repr_of(error)), lines))
            connection.send_bytes(answer)
    except EOFError:
        os._exit(0)


def _end_with(parent: int) -> None:
    """End this process once its parent has ended, even during a call."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
