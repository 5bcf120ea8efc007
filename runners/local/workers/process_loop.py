"""Event loop of a slot in a process of its own: reads pipes, processes messages, writes pipes, obeys commands."""

from __future__ import annotations

import select
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from ...execution.clock import ProcessingTime
from ...execution.error_transport import RemoteError
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId
from ...execution.stuck_calls import CallWatch, Returned, Stuck
from ...execution.wakeup import Wakeup
from ..channels.channel import Channel, ChannelId, ReceivingEnd, SendingEnd
from ..channels.messages import BarrierKind
from .pipe import receive_sockets, send
from .pool import IDLE, MOMENT, SOON
from .processes import run_worker
from .protocol import ChangeOver, Failed, FencedEndpoint, Inject, Report, Rewind
from .slot import Slot, Start

# Microseconds between two reports of counts.
_COUNTS = 250_000

# File descriptors that `select` takes are below this on Linux.
_FD_SETSIZE = 1024


def run_slot(control: Connection, sockets: Sequence[socket.socket], *arguments: Any) -> None:
    """Run a slot in this process; `arguments` are those of `SlotProcess`."""
    process = SlotProcess(control, sockets, *arguments)
    run_worker(process.run, process.report_failure)


class SlotProcess:
    """The process of a slot.

    Args:
      control: the pipe of commands and reports.
      sockets: its ends of the pipes between slots.
      ends: the channel of each of them, and whether it is the sending end.
      timeout: seconds after which a call that has not returned is reported.
    """

    def __init__(
        self,
        control: Connection,
        sockets: Sequence[socket.socket],
        execution_graph: ExecutionGraph,
        ids: Sequence[SubtaskId],
        start: Start,
        ends: Sequence[tuple[ChannelId, bool]],
        clock: Callable[[], int],
        timeout: float = 10.0,
    ) -> None:
        self._control = control
        self._timeout = timeout
        # Held to report: the loop's thread does, and the watch's.
        self._lock = threading.Lock()
        self._endpoint = FencedEndpoint(start.attempt)
        self._clock = ProcessingTime.of(clock)
        self._receiving: list[ReceivingEnd] = []
        self._sending: list[SendingEnd] = []
        self._channels: dict[ChannelId, Channel] = {}
        self._add_ends(ends, sockets)
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)
        # By itself epoll rounds a wait up to a millisecond; kqueue doesn't.  `select` on it doesn't either, but it
        # takes no greater descriptors.
        self._epoll = self._selector.fileno() if sys.platform == "linux" else -1
        self._is_exact = 0 <= self._epoll < _FD_SETSIZE
        self._watched: dict[int, int] = {}
        # How many bundles sources have read, and when they read the last.
        self._bundles = 0
        self._read_at = 0
        # The numbers of the last barrier that was injected, and of the last unaligned one.
        self._expected = self._unaligned = -1
        self._slot: Slot | None = None
        self._make = partial(start.slot_type, execution_graph, ids, start, self._channel, self._report, self._clock)

    def _add_ends(self, ends: Iterable[tuple[ChannelId, bool]], sockets: Iterable[socket.socket]) -> None:
        for (id, is_sender), pipe in zip(ends, sockets, strict=True):
            if is_sender:
                self._sending.append(SendingEnd(id, pipe))
                self._channels[id] = self._sending[-1]
            else:
                self._receiving.append(ReceivingEnd(id, pipe))
                self._channels[id] = self._receiving[-1]

    def _discard(self, id: ChannelId) -> None:
        """Close a channel that is replaced, and discard its messages."""
        end = self._channels.pop(id, None)
        if not isinstance(end, (SendingEnd, ReceivingEnd)):
            return
        self._watch(end.socket, 0, False, end)
        self._sending = [other for other in self._sending if other is not end]
        self._receiving = [other for other in self._receiving if other is not end]
        end.socket.close()

    def _rewind(self, rewind: Rewind) -> None:
        slot = self._slot
        assert slot is not None
        for id in rewind.channels:
            self._discard(id)
        self._add_ends(rewind.ends, receive_sockets(self._control, len(rewind.ends)))
        slot.rewind(rewind, self._channel)

    def _channel(self, id: ChannelId) -> Channel:
        found = self._channels.get(id)
        if found is None:
            found = self._channels[id] = Channel(id)
        return found

    def run(self) -> None:
        """Run until the job stops the slot, or is gone."""
        self._slot = self._make()
        self._slot.write_in_background()
        with CallWatch(self._timeout, self._report_call), self._slot.counting():
            self._slot.observer.is_own_process = True
            self._slot.start()
            self._loop()

    def _report(self, report: Report) -> None:
        with self._lock:
            send(self._control, self._endpoint.message(report))

    def report_failure(self, error: RemoteError) -> None:
        """Report an error that ends the slot."""
        self._report((None, Failed(error)))

    def _report_call(self, report: Stuck | Returned) -> None:
        # If the job is gone, the loop finds out.
        with suppress(OSError):
            self._report((None, report))

    def _loop(self) -> None:
        slot = self._slot
        assert slot is not None
        counts_at = self._clock() + _COUNTS
        if slot.wakeup is not None:
            self._selector.register(slot.wakeup, selectors.EVENT_READ, slot.wakeup)
        while not slot.has_ended:
            worked = not slot.has_stopped and slot.work()
            if worked:
                self._look_at_sources(slot)
            self._exchange(0 if worked else self._patience())
            if slot.has_stopped:
                continue
            if not worked:
                slot.tick()
            if self._clock() >= counts_at:
                counts_at = self._clock() + _COUNTS
                self._report((None, slot.counted()))

    def _look_at_sources(self, slot: Slot) -> None:
        """Note when sources have read something.  Watermarks alone, which may follow the clock, don't count."""
        bundles = sum(reader.bundles for subtask in slot.subtasks.values() for reader in subtask.readers)
        if bundles != self._bundles:
            self._bundles, self._read_at = bundles, self._clock()

    def _patience(self) -> float:
        """Return how long to wait, in seconds, when there is nothing to do."""
        slot = self._slot
        assert slot is not None
        if slot.is_writing or any(
            not reader.is_finished for subtask in slot.subtasks.values() for reader in subtask.readers
        ):
            return SOON if self._clock() - self._read_at < MOMENT else IDLE
        due = slot.next_time()
        wait = _COUNTS if due is None else max(0, min(_COUNTS, due - self._clock()))
        return wait / 1_000_000

    def _exchange(self, seconds: float) -> None:
        """Read pipes whose channels have room, write pipes, and obey commands, after at most so many seconds."""
        # An unaligned barrier must be found, however much waits before it; any barrier, by a task that is behind.
        barrier = self._unaligned
        if self._expected > barrier and self._slot is not None and self._slot.has_pending:
            barrier = self._expected
        for receiving in self._receiving:
            wanted = not receiving.is_full or receiving.seen < barrier
            self._watch(receiving.socket, selectors.EVENT_READ, wanted, receiving)
        for sending in self._sending:
            self._watch_sending(sending)
        has_command = False
        for key, _ in self._select(seconds):
            end = key.data
            if end is None:
                has_command = True
            elif isinstance(end, Wakeup):
                end.clear()
            elif isinstance(end, SendingEnd):
                end.flush()
                end.look()
            elif not end.read():
                self._watch(end.socket, selectors.EVENT_READ, False, end)
                self._receiving.remove(end)
        # Commands may discard ends.
        if has_command:
            self._obey()

    def _select(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        if 0 < seconds < 0.001 and self._is_exact:
            select.select([self._epoll], [], [], seconds)
            seconds = 0
        return self._selector.select(seconds)

    def _watch(self, pipe: socket.socket, event: int, wanted: bool, end: ReceivingEnd | SendingEnd) -> None:
        number = pipe.fileno()
        if wanted and number not in self._watched:
            self._watched[number] = event
            self._selector.register(pipe, event, end)
        elif not wanted and number in self._watched:
            del self._watched[number]
            self._selector.unregister(pipe)

    def _watch_sending(self, sending: SendingEnd) -> None:
        """Watch a pipe for its receiver to pause or to resume, and for room if frames are pending."""
        event = 0 if sending.is_over else selectors.EVENT_READ
        if sending.has_pending:
            event |= selectors.EVENT_WRITE
        if self._watched.get(sending.socket.fileno(), 0) != event:
            self._watch(sending.socket, 0, False, sending)
            self._watch(sending.socket, event, bool(event), sending)

    def _obey(self) -> None:
        slot = self._slot
        assert slot is not None
        while self._control.poll():
            message = self._control.recv()
            if not self._endpoint.accepts(message):
                continue
            command = message.content
            if isinstance(command, Rewind):
                self._rewind(command)
                continue
            slot.obey(command)
            if isinstance(command, Inject):
                if command.barrier.kind is BarrierKind.UNALIGNED:
                    self._unaligned = command.barrier.number
                self._expected = command.barrier.number
            elif isinstance(command, ChangeOver):
                self._unaligned = command.barrier.number
