"""Numbers of what is sent, through pipes and snapshots; and what a receiver makes of them."""

from __future__ import annotations

import pytest

from penstock.runners.local.channel import ChannelId
from penstock.runners.local.messages import Elements
from penstock.runners.local.numbering import Numbering
from penstock.runners.local.pipe_channel import message_of, payloads_of
from penstock.runners.local.repetitions import NotRepeatedError, Repetitions
from penstock.sdk.bundle import Bundle

ORIGIN = ("Read", ("file.txt", 3))
CHANNEL = ChannelId(0, 1, 2)


def numbered(first: int, *values: str) -> Elements:
    """A message."""
    return Elements(Bundle(list(values), list(range(len(values)))), ORIGIN, first)


@pytest.mark.parametrize("size", [1, 2_000_000])
def test_numbers_travel_with_elements_however_many_frames_they_make(size: int) -> None:
    """What is too large for one frame comes as several messages, whose numbers follow each other."""
    values = [letter * size for letter in "abcde"]
    messages = [message_of(*payload) for payload in payloads_of(numbered(7, *values))]

    assert (size > 1) is (len(messages) > 1)
    assert values == [value for message in messages for value in message.bundle.values]
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {ORIGIN: 6})
    assert values == [value for message in messages for value in repetitions.fresh(CHANNEL, message).values]


def test_numbers_go_on_where_a_snapshot_was_taken() -> None:
    """For each channel and partition by itself."""
    before, after = Numbering(), Numbering()
    before.origin = ORIGIN
    before.next(CHANNEL, 5)
    before.next(ChannelId(0, 1, 0), 2)
    after.restore("Read", 1, before.kept("Read"))
    after.origin = ORIGIN
    assert (6, 3) == (after.next(CHANNEL, 1), after.next(ChannelId(0, 1, 0), 1))
    assert {} == before.kept("Another")


def test_elements_that_are_missing_are_an_error_and_not_a_loss() -> None:
    """A sender that skips some isn't believed."""
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {})
    repetitions.fresh(CHANNEL, numbered(1, "a"))
    with pytest.raises(NotRepeatedError, match="Read: of partition .* element number 3 came after number 1"):
        repetitions.fresh(CHANNEL, numbered(3, "c"))


def test_a_source_that_gives_less_the_second_time_is_an_error() -> None:
    """Else everybody would wait for ever for what doesn't come."""
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {})
    repetitions.fresh(CHANNEL, numbered(1, "a", "b"))
    repetitions.come_again([CHANNEL])
    repetitions.resumed(CHANNEL, {})
    repetitions.fresh(CHANNEL, numbered(1, "a"))
    with pytest.raises(NotRepeatedError, match="has ended before its element number 2 came again"):
        repetitions.ended(CHANNEL)


def test_a_sender_that_resumes_ahead_of_what_has_come_is_an_error() -> None:
    """What lies between would be lost."""
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {})
    repetitions.come_again([CHANNEL])
    with pytest.raises(NotRepeatedError, match="element number 4 came after number 0"):
        repetitions.resumed(CHANNEL, {ORIGIN: 4})
