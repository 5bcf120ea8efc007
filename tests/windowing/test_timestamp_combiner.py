import pytest

from penstock.windowing import (
    FixedWindows,
    IntervalWindow,
    Timestamp,
    TimestampCombiner,
    at_fire,
    combined,
    for_element,
)

WINDOW = IntervalWindow(0, 10)


class HalfSecondLater(FixedWindows):
    def get_transformed_output_time(self, window, input_timestamp):
        return input_timestamp + 0.5


def timestamp_of_pane(combiner, elements, window_fn=None):
    """Combine timestamps as the window operator does: add each element's, and read the result at a firing."""
    held = None
    for micros in elements:
        new = for_element(combiner, WINDOW, micros, window_fn)
        held = new if held is None or new is None else combined(combiner, held, new)
    return at_fire(combiner, WINDOW, held)


@pytest.mark.parametrize(
    ("combiner", "expected"),
    [
        (TimestampCombiner.OUTPUT_AT_EOW, WINDOW.max_micros),
        (TimestampCombiner.OUTPUT_AT_EARLIEST, 2_000_000),
        (TimestampCombiner.OUTPUT_AT_LATEST, 8_000_000),
        (TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED, 2_500_000),
    ],
)
def test_a_pane_has_the_timestamp_that_its_combiner_says(combiner, expected):
    assert expected == timestamp_of_pane(combiner, [5_000_000, 2_000_000, 8_000_000], HalfSecondLater(10))


@pytest.mark.parametrize("combiner", list(TimestampCombiner))
def test_an_empty_pane_has_the_end_of_its_window(combiner):
    assert WINDOW.max_timestamp() == Timestamp.of_micros(timestamp_of_pane(combiner, []))


@pytest.mark.parametrize("combiner", list(TimestampCombiner))
def test_the_order_of_two_makes_no_difference(combiner):
    assert combined(combiner, 3, 7) == combined(combiner, 7, 3)


def test_without_a_window_function_nothing_is_transformed():
    assert 7 == for_element(TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED, WINDOW, 7)
