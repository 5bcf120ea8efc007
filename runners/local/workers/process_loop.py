"""A slot that is a process: one loop that reads pipes, works, writes pipes, and hears its commands."""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection

from ....sdk.errors import UserCodeError
from ...execution.clock import ProcessingTime
from ...execution.error_transport import remote
from ...execution.gc_tuning import look_rarely_for_garbage
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId
from ...execution.stuck_calls import CallWatch, Returned, Stuck
from ...execution.user_errors import as_exception
from ..channels.channel import Channel, ChannelId, ReceivingEnd, SendingEnd
from ..channels.messages import BarrierKind
from .handing_over import take_over
from .pool import IDLE, MOMENT, SOON
from .protocol import Conversation, Failed, Inject, Pause, Report, Rewind, Stop
from .slot import Slot, Start
from .watch import Watch

# How often it says how it is getting on, in microseconds.
_NEWS = 250_000

# Of the file descriptors that `select` takes, how many there are on Linux.
_FD_SETSIZE = 1024


class SlotProcess:
    """The whole life of a forked process.

    Args:
      pipes: both ends of the pipes between all slots, by channel.
      control: where commands come from, and reports go.
      number, slots: which of how many slots it is.
      timeout: seconds after which a call that has not returned is named.
    """

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        ids: Sequence[SubtaskId],
        start: Start,
        pipes: Mapping[ChannelId, tuple[socket.socket, socket.socket]],
        control: Connection,
        clock: Callable[[], int],
        number: int,
        slots: int,
        timeout: float = 10.0,
    ) -> None:
        self._control = control
        self._timeout = timeout
        # The loop's thread and the watch both tell.
        self._telling = threading.Lock()
        self._conversation = Conversation(start.attempt)
        self._clock = ProcessingTime.of(clock)
        self._receiving: list[ReceivingEnd] = []
        self._sending: list[SendingEnd] = []
        self._channels: dict[ChannelId, Channel] = {}
        for id, (entry, exit) in pipes.items():
            if id.source % slots == number:
                self._take(id, True, entry)
            else:
                entry.close()
            if id.target % slots == number:
                self._take(id, False, exit)
            else:
                exit.close()
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)
        # By itself epoll would round a wait up to a millisecond, and kqueue doesn't.  `select` waits as long as it is
        # told to, but knows no numbers that are greater.
        self._epoll = self._selector.fileno() if sys.platform == "linux" else -1
        self._is_exact = 0 <= self._epoll < _FD_SETSIZE
        self._watched: dict[int, int] = {}
        self._is_over = False
        # How often sources have given something, and when they last did.
        self._bundles = 0
        self._read_at = 0
        # The barrier that is on its way, and that which overtakes.
        self._expected = self._overtaking = -1
        self._slot: Slot | None = None
        self._make = partial(start.slot, execution_graph, ids, self._channel, self._tell, self._clock)

    def _take(self, id: ChannelId, is_entry: bool, pipe: socket.socket) -> None:
        """An end of a pipe is this process's: where messages are put, or where they come out."""
        if is_entry:
            self._sending.append(SendingEnd(id, pipe))
            self._channels[id] = self._sending[-1]
        else:
            self._receiving.append(ReceivingEnd(id, pipe))
            self._channels[id] = self._receiving[-1]

    def _let_go(self, id: ChannelId) -> None:
        """Another channel takes this one's place: what is in it is for nobody."""
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
            self._let_go(id)
        for (id, is_entry), pipe in zip(rewind.ends, take_over(self._control, len(rewind.ends)), strict=True):
            self._take(id, is_entry, pipe)
        slot.rewind(rewind, self._channel)

    def _channel(self, id: ChannelId) -> Channel:
        found = self._channels.get(id)
        if found is None:
            found = self._channels[id] = Channel(id)
        return found

    def run(self) -> None:
        """Run until it is told to stop, or nobody is there any more who could."""
        # Ctrl-C is for the process that the user started, and so is SIGTERM, which may be sent to all of a group.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            look_rarely_for_garbage()
            self._slot = self._make()
            self._slot.fork()
            time_slice = self._slot.time_slice
            calls = CallWatch(self._timeout, self._tell_of, lambda: time_slice.began is not None, has_thread=False)
            with calls:
                Watch(time_slice, self._timeout, self._tell_of, look_between=calls.look).start()
                self._slot.start()
                self._loop()
        except BaseException as error:
            # An error of user code may be of these classes, too.
            is_over = isinstance(error, (BrokenPipeError, ConnectionResetError, EOFError))
            if not is_over or isinstance(error, UserCodeError):
                self._tell((None, Failed(remote(as_exception(error)))))
        sys.stdout.flush()
        sys.stderr.flush()
        # No handlers of the parent's are to run here.
        os._exit(0)

    def _tell(self, report: Report) -> None:
        with self._telling:
            self._control.send(self._conversation.say(report))

    def _tell_of(self, news: Stuck | Returned) -> None:
        # If the job is gone, the loop finds out.
        with suppress(OSError):
            self._tell((None, news))

    def _loop(self) -> None:
        slot = self._slot
        assert slot is not None
        news_at = self._clock() + _NEWS
        while not self._is_over:
            worked = slot.work()
            if worked:
                self._look_at_sources(slot)
            self._exchange(0 if worked else self._patience())
            if not worked:
                slot.tick()
            if self._clock() >= news_at:
                news_at = self._clock() + _NEWS
                self._tell((None, slot.counted()))

    def _look_at_sources(self, slot: Slot) -> None:
        """Remember when they had something.  Watermarks alone, which may move by the clock, are no reason to hurry."""
        bundles = sum(reader.bundles for subtask in slot.subtasks.values() for reader in subtask.readers)
        if bundles != self._bundles:
            self._bundles, self._read_at = bundles, self._clock()

    def _patience(self) -> float:
        """How long to wait, in seconds, when there is nothing to do."""
        slot = self._slot
        assert slot is not None
        if slot.is_writing or any(
            not reader.is_finished for subtask in slot.subtasks.values() for reader in subtask.readers
        ):
            return SOON if self._clock() - self._read_at < MOMENT else IDLE
        due = slot.next_time()
        wait = _NEWS if due is None else max(0, min(_NEWS, due - self._clock()))
        return wait / 1_000_000

    def _exchange(self, seconds: float) -> None:
        """Read what has come, if there is room for it, and write what waits."""
        # A barrier that overtakes must be found, however much waits before it; any barrier, by a task that is behind.
        barrier = self._overtaking
        if self._expected > barrier and self._slot is not None and self._slot.is_behind:
            barrier = self._expected
        for receiving in self._receiving:
            wanted = not receiving.is_full or receiving.seen < barrier
            self._watch(receiving.socket, selectors.EVENT_READ, wanted, receiving)
        for sending in self._sending:
            sending.look()
            self._watch_sending(sending)
        is_told = False
        for key, _ in self._select(seconds):
            end = key.data
            if end is None:
                is_told = True
            elif isinstance(end, SendingEnd):
                end.flush()
                end.look()
            elif not end.read():
                self._watch(end.socket, selectors.EVENT_READ, False, end)
                self._receiving.remove(end)
        # By what is heard ends may be let go.
        if is_told:
            self._hear()

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
        """Wait for room in a pipe that something waits for, or for its receiver to ask for more."""
        event = selectors.EVENT_WRITE if sending.has_pending else selectors.EVENT_READ if sending.is_paused else 0
        if self._watched.get(sending.socket.fileno(), 0) != event:
            self._watch(sending.socket, 0, False, sending)
            self._watch(sending.socket, event, bool(event), sending)

    def _hear(self) -> None:
        slot = self._slot
        assert slot is not None
        while self._control.poll():
            said = self._control.recv()
            if not self._conversation.is_news(said):
                continue
            command = said.what
            if isinstance(command, Rewind):
                self._rewind(command)
                continue
            slot.obey(command)
            if isinstance(command, Inject):
                if command.barrier.kind is BarrierKind.UNALIGNED:
                    self._overtaking = command.barrier.number
                self._expected = command.barrier.number
            if isinstance(command, Stop):
                self._is_over = True
            if isinstance(command, Pause) and not command.is_paused:
                # Who may go on does something before it is told to wait again, however soon that is.
                return
