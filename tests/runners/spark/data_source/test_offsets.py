"""Offsets in Spark's checkpoint, which another program could have written."""

from __future__ import annotations

import base64
import fractions
import os
import pickle
from collections.abc import Callable

import pytest

from penstock.runners.spark.data_source.offsets import decoded, encoded
from penstock.sdk.errors import SourceError
from penstock.windowing import Timestamp


def test_plain_data_and_types_of_penstock_are_restored() -> None:
    """Tuples stay tuples, which JSON alone would make lists of."""
    value = [(("topic", 3), {"offset": 1 << 70, "at": Timestamp(1.5)}, b"\xff", None)]
    assert value == decoded(encoded(value, "Read"), "Read")


def test_a_class_is_refused_when_it_is_written() -> None:
    """Not when the query is started again."""
    with pytest.raises(SourceError, match="Read: an offset has an instance of fractions.Fraction"):
        encoded(fractions.Fraction(1, 2), "Read")


class Evil:
    """Runs a command where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch /tmp/should-not-exist",)


@pytest.mark.parametrize("text", [base64.b64encode(pickle.dumps(Evil())).decode(), "no base 64", "", None, "AAAA"])
def test_other_text_is_refused_and_runs_nothing(text: str | None) -> None:
    """The error names the transform."""
    with pytest.raises(SourceError, match="Read: "):
        decoded(text, "Read")
