"""Functions and classes that a program marks by Beam's decorators."""

from __future__ import annotations

import warnings

import pytest

from penstock.beam.sdk.annotations import BeamDeprecationWarning, deprecated, experimental


def warned(call) -> list[tuple[type, str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(one.category, str(one.message)) for one in caught]


def test_a_call_of_a_deprecated_function_warns():
    @deprecated(since="1.2", current="total", extra_message="It is faster.")
    def add_up(values):
        """Return the sum."""
        return sum(values)

    message = "add_up is deprecated since 1.2. Use total instead. It is faster."
    assert [(BeamDeprecationWarning, message)] == warned(lambda: add_up([1, 2]))
    assert f"Return the sum.\n\n.. deprecated:: {message}" == add_up.__doc__


def test_a_deprecated_class_warns_when_an_object_is_made():
    @deprecated(since="1.2")
    class Totals:
        def __init__(self, start):
            self.start = start

    assert [(BeamDeprecationWarning, "Totals is deprecated since 1.2.")] == warned(lambda: Totals(5))
    assert 5 == Totals(5).start


def test_an_experimental_function_warns_of_the_future():
    @experimental(custom_message="%name%: try %current%%extra%", current="total")
    def add_up():
        pass

    assert [(FutureWarning, "add_up: try total")] == warned(add_up)


def test_a_deprecation_says_since_when():
    with pytest.raises(TypeError):
        deprecated()
    with pytest.raises(TypeError, match="must have %since% in it"):
        deprecated(since="1", custom_message="gone")
