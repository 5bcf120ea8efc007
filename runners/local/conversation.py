"""What a job and a slot say to each other: each thing is heard once, and only by whom it is meant for.

Both number what they say, and name the attempt that it belongs to.  So what comes twice changes nothing, and
nothing is heard of a worker that was given up, or of one that an earlier job has left behind: its
acknowledgements, and what it has produced, may come late and name epochs that exist again.

>>> job, worker, zombie = Conversation("bb"), Conversation("bb"), Conversation("aa")
>>> said = worker.say("acknowledged")
>>> job.is_news(said), job.is_news(said), job.is_news(zombie.say("acknowledged"))
(True, False, False)
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Said(NamedTuple):
    """A command or a report, as it travels."""

    attempt: str
    number: int
    what: Any


class Conversation:
    """One end of it.

    Args:
      attempt: unique to it.
      believes_all: True takes everything for news: only to show that the results are wrong then.
    """

    def __init__(self, attempt: str, believes_all: bool = False) -> None:
        self._attempt = attempt
        self._believes_all = believes_all
        self._said = 0
        self._heard = 0

    def say(self, what: Any) -> Said:
        """Number what is said."""
        self._said += 1
        return Said(self._attempt, self._said, what)

    def is_news(self, said: Said) -> bool:
        """Whether it comes from the other end, and for the first time; what is behind it then comes later."""
        if self._believes_all:
            return True
        if said.attempt != self._attempt or said.number <= self._heard:
            return False
        self._heard = said.number
        return True
