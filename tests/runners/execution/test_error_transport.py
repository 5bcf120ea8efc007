"""Errors on their way from a worker."""

from __future__ import annotations

from penstock.runners.execution.error_transport import local, original, remote, wrapped
from penstock.sdk.errors import CorruptSnapshotError, PenstockError, SnapshotError


class Peculiar(PenstockError):
    """Is made of what can't be pickled."""

    def __init__(self, first: object, second: object) -> None:
        super().__init__(first, second)

    def __str__(self) -> str:
        return "peculiar"


def test_an_error_that_is_made_of_more_than_a_text_arrives_as_it_was() -> None:
    """A damaged log was a TypeError, which named neither the file nor what was found in it."""
    error = CorruptSnapshotError("a log", "nothing", "something")

    for arrived in (local(remote(error)), original(str(wrapped(error)))):
        assert isinstance(arrived, CorruptSnapshotError)
        assert ("a log", str(error)) == (arrived.file, str(arrived))


def test_one_that_can_not_be_made_again_keeps_its_text() -> None:
    """Then it is one of ours, and that is all."""
    arrived = local(remote(Peculiar(open, (line for line in "x"))))

    assert (PenstockError, "peculiar") == (type(arrived), str(arrived))


def test_one_that_is_made_of_a_text_is_of_its_class() -> None:
    """As most are."""
    arrived = local(remote(SnapshotError("the disk is full")))

    assert (SnapshotError, "the disk is full") == (type(arrived), str(arrived))


def test_one_without_a_text_is_named_by_its_class() -> None:
    """As Python's own MemoryError; and a KeyError says more than its key."""
    found = [str(local(remote(error))) for error in (MemoryError(), TimeoutError(), KeyError("a"))]

    assert ["MemoryError", "TimeoutError", "KeyError: 'a'"] == found
