"""State and timer specs: what a DoFn declares, and the kinds of state against plain Python."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.state.keyed_state import KeyedState
from penstock.sdk.coders import BytesCoder, VarIntCoder
from penstock.sdk.dofn.stateful_dofn import get_dofn_specs, is_stateful_dofn, signature_of, validate_stateful_dofn
from penstock.sdk.errors import PipelineError, StatefulDoFnError, UnsupportedError
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    DictStore,
    MapStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
    on_window_expiration,
)
from penstock.testing import TestPipeline
from penstock.windowing import FixedWindows, Sessions, Timestamp

# --- Specs


@pytest.mark.parametrize(
    "kind", [ReadModifyWriteStateSpec, BagStateSpec, SetStateSpec, MapStateSpec, OrderedListStateSpec]
)
def test_a_state_has_a_name_and_maybe_a_coder(kind: Any) -> None:
    """And nothing else."""
    assert "state" == kind("state").name == kind("state", VarIntCoder()).name
    with pytest.raises(TypeError, match=f"{kind.__name__}: the name must be a str, got 123"):
        kind(123)
    with pytest.raises(TypeError, match="must be a Coder"):
        kind("state", object())


def test_the_coder_of_a_combining_state_may_be_left_out() -> None:
    """Beam's arguments: the combiner then stands in its place."""
    for spec in (
        CombiningValueStateSpec("total", sum),
        CombiningValueStateSpec("total", combine_fn=sum),
        CombiningValueStateSpec("total", VarIntCoder(), sum),
    ):
        state = spec.of(DictStore())
        state.add(2)
        state.add(3)
        assert 5 == state.read()
    with pytest.raises(ValueError, match="combine_fn must be provided"):
        CombiningValueStateSpec("total")
    with pytest.raises(TypeError, match="expected a CombineFn or a callable"):
        CombiningValueStateSpec("total", VarIntCoder(), object())
    with pytest.raises(TypeError, match="expected a combiner, got the coder"):
        CombiningValueStateSpec("total", VarIntCoder())
    with pytest.raises(TypeError, match="the name must be a str"):
        CombiningValueStateSpec(123, VarIntCoder(), sum)  # type: ignore[arg-type]


def test_a_timer_has_a_name_and_one_of_two_time_domains() -> None:
    """Written as a string as well."""
    assert beam.TimeDomain.WATERMARK == TimerSpec("timer", "WATERMARK").time_domain
    assert beam.TimeDomain.REAL_TIME is TimerSpec("timer", beam.TimeDomain.REAL_TIME).time_domain
    with pytest.raises(ValueError, match="must be one of .*WATERMARK.*REAL_TIME.*, got 'bogus'"):
        TimerSpec("timer", "bogus")
    with pytest.raises(TypeError, match="the name must be a str"):
        TimerSpec(7, "WATERMARK")  # type: ignore[arg-type]


def test_markers_take_the_right_kind_of_spec() -> None:
    """Said where they are written."""
    with pytest.raises(ValueError, match=r"DoFn.StateParam takes a StateSpec, got TimerSpec\(timer\)"):
        beam.DoFn.StateParam(TimerSpec("timer", "WATERMARK"))
    with pytest.raises(ValueError, match=r"DoFn.TimerParam takes a TimerSpec, got BagStateSpec\(bag\)"):
        beam.DoFn.TimerParam(BagStateSpec("bag", BytesCoder()))
    with pytest.raises(ValueError, match="on_timer takes a TimerSpec"):
        on_timer(BagStateSpec("bag"))  # type: ignore[arg-type]


# --- DoFns


class Two(beam.DoFn):
    """With two states and two timers."""

    BUFFER = BagStateSpec("buffer")
    COUNT = CombiningValueStateSpec("count", sum)
    SOON = TimerSpec("soon", beam.TimeDomain.REAL_TIME)
    LATER = TimerSpec("later", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        buffer: Any = beam.DoFn.StateParam(BUFFER),
        soon: Any = beam.DoFn.TimerParam(SOON),
    ) -> Any:
        yield element

    @on_timer(SOON)
    def at_once(self, count: Any = beam.DoFn.StateParam(COUNT), later: Any = beam.DoFn.TimerParam(LATER)) -> Any:
        yield "soon"

    @on_timer(LATER)
    def in_time(self, sign: int = beam.DoFn.SignParam) -> Any:
        yield "later"

    @on_window_expiration
    def at_last(self, key: Any = beam.DoFn.KeyParam) -> Any:
        yield key


def test_the_specs_of_a_dofn_are_those_of_all_its_methods() -> None:
    """Those that only a timer's method asks for among them."""
    validate_stateful_dofn(Two())
    assert ({Two.BUFFER, Two.COUNT}, {Two.SOON, Two.LATER}) == get_dofn_specs(Two())
    assert not is_stateful_dofn(beam.DoFn())
    assert is_stateful_dofn(Two())
    signature = signature_of(Two())
    assert {"soon": "at_once", "later": "in_time"} == signature.on_timer
    assert ("at_last", True) == (signature.on_window_expiration, signature.takes_sign)


def test_a_dofn_that_was_pickled_still_has_its_callbacks() -> None:
    """By reference and by value."""
    for copied in (pickle.loads(pickle.dumps(Two())), cloudpickle.loads(cloudpickle.dumps(local_stateful()))):
        validate_stateful_dofn(copied)
        assert "at_once" == signature_of(copied).on_timer["soon"]


def local_stateful() -> beam.DoFn:
    """A DoFn of a class that has no importable name."""

    class Local(beam.DoFn):
        SOON = TimerSpec("soon", beam.TimeDomain.REAL_TIME)

        def process(self, element: Any, soon: Any = beam.DoFn.TimerParam(SOON)) -> None:
            soon.set(1)

        @on_timer(SOON)
        def at_once(self) -> None:
            pass

    return Local()


def test_one_method_asks_for_a_state_once() -> None:
    """In process or in a callback."""

    class Twice(beam.DoFn):
        BUFFER = BagStateSpec("buffer")

        def process(
            self, element: Any, a: Any = beam.DoFn.StateParam(BUFFER), b: Any = beam.DoFn.StateParam(BUFFER)
        ) -> None:
            pass

    with pytest.raises(ValueError, match=r"duplicate process method parameters: BagStateSpec\(buffer\)"):
        validate_stateful_dofn(Twice())


def test_names_are_unique() -> None:
    """Those of states, and those of timers."""

    class States(beam.DoFn):
        def process(
            self,
            element: Any,
            a: Any = beam.DoFn.StateParam(BagStateSpec("same")),
            b: Any = beam.DoFn.StateParam(SetStateSpec("same")),
        ) -> None:
            pass

    with pytest.raises(ValueError, match=r"multiple StateSpecs with the same name: .*BagStateSpec\(same\)"):
        validate_stateful_dofn(States())


def test_a_timer_has_exactly_one_method() -> None:
    """None, two, and one that was written over."""
    first, second = TimerSpec("first", "WATERMARK"), TimerSpec("second", "WATERMARK")

    class Forgotten(beam.DoFn):
        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(first)) -> None:
            pass

        def __repr__(self) -> str:
            return "Forgotten"

    with pytest.raises(
        ValueError, match=r"DoFn Forgotten has a TimerSpec without an associated on_timer callback: TimerSpec\(first\)."
    ):
        validate_stateful_dofn(Forgotten())

    class Overwritten(beam.DoFn):
        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(first)) -> None:
            pass

        @on_timer(first)
        def on_expiry(self) -> None:
            pass

        @on_timer(second)  # type: ignore[no-redef]
        def on_expiry(self) -> None:  # noqa: F811
            pass

        def __repr__(self) -> str:
            return "Overwritten"

    with pytest.raises(
        ValueError,
        match=r"The on_timer callback for TimerSpec\(first\) is not the specified .on_expiry method for DoFn "
        r"Overwritten \(perhaps it was overwritten\?\).",
    ):
        validate_stateful_dofn(Overwritten())
    with pytest.raises(ValueError, match=r"Multiple on_timer callbacks registered for TimerSpec\(first\)"):
        on_timer(first)(lambda self: None)


# --- What is refused when the pipeline is built


def refused(dofn: beam.DoFn, elements: Any = (("a", 1),), window_fn: Any = None) -> str:
    """Return the error of applying a DoFn."""
    pcoll = TestPipeline() | beam.Create(elements)
    if window_fn is not None:
        pcoll = pcoll | beam.WindowInto(window_fn)
    with pytest.raises(StatefulDoFnError) as caught:
        pcoll | "Apply" >> beam.ParDo(dofn)
    return str(caught.value)


def test_elements_that_are_no_pairs_are_refused_when_the_pipeline_is_built() -> None:
    """Where their type is known; it is a ValueError, as in Beam."""
    message = refused(Two(), [1, 2])
    assert "Input elements to the transform Apply with stateful DoFn must be key-value pairs." in message
    assert "produces int" in message
    assert issubclass(StatefulDoFnError, ValueError)


def test_windows_that_merge_are_refused_until_they_have_merged() -> None:
    """State belongs to a window; after a grouping no two of a key become one."""
    assert "Apply: state is kept for each window, and Sessions" in refused(Two(), window_fn=Sessions(10))
    windowed = TestPipeline() | beam.Create([("a", 1)]) | beam.WindowInto(Sessions(10))
    windowed | beam.GroupByKey() | beam.Map(lambda kv: kv) | beam.ParDo(Two())
    regrouped = windowed | "Group" >> beam.GroupByKey() | "Again" >> beam.WindowInto(Sessions(10))
    with pytest.raises(StatefulDoFnError, match="merges windows"):
        regrouped | "Apply" >> beam.ParDo(Two())
    windowed | "Other" >> beam.WindowInto(FixedWindows(10)) | "Fixed" >> beam.ParDo(Two())


def test_callbacks_take_nothing_but_markers() -> None:
    """And only those for which there is something."""

    class Element(beam.DoFn):
        SOON = TimerSpec("soon", "WATERMARK")

        def process(self, element: Any, soon: Any = beam.DoFn.TimerParam(SOON)) -> None:
            pass

        @on_timer(SOON)
        def at_once(self, element: Any) -> None:
            pass

    assert "at_once has the parameter 'element', which gets no value" in refused(Element())

    class SideInput(beam.DoFn):
        SOON = TimerSpec("soon", "WATERMARK")

        def process(self, element: Any, soon: Any = beam.DoFn.TimerParam(SOON)) -> None:
            pass

        @on_timer(SOON)
        def at_once(self, element: Any = beam.DoFn.ElementParam) -> None:
            pass

    assert "the on_timer method at_once asks for DoFn.ElementParam, which it can't be given" in refused(SideInput())

    class AtLast(beam.DoFn):
        SOON = TimerSpec("soon", "WATERMARK")

        def process(self, element: Any) -> None:
            pass

        @on_timer(SOON)
        def at_once(self) -> None:
            pass

        @on_window_expiration
        def at_last(self, soon: Any = beam.DoFn.TimerParam(SOON)) -> None:
            pass

    assert "the on_window_expiration method at_last asks for DoFn.TimerParam" in refused(AtLast())


def test_a_function_has_no_state() -> None:
    """An element has no timer tag either."""
    pcoll = TestPipeline() | beam.Create([("a", 1)])
    with pytest.raises(StatefulDoFnError, match="DoFn.StateParam is for the methods of a DoFn"):
        pcoll | beam.Map(lambda x, s=beam.DoFn.StateParam(BagStateSpec("bag")): x)

    class Tag(beam.DoFn):
        def process(self, element: Any, tag: Any = beam.DoFn.DynamicTimerTagParam) -> None:
            pass

    with pytest.raises(PipelineError, match="DoFn.DynamicTimerTagParam is for on_timer methods"):
        pcoll | beam.ParDo(Tag())


def test_batches_of_a_retracted_input_are_refused_where_they_can_not_be_taken_apart() -> None:
    """By name, when the pipeline is built."""
    retracting = beam.WindowInto(
        FixedWindows(10),
        trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
    )
    sums = TestPipeline() | beam.Create([("a", 1)]) | retracting | "Sum" >> beam.CombinePerKey(sum)
    with pytest.raises(UnsupportedError, match="GroupIntoBatches: Sum may retract its input"):
        sums | beam.GroupIntoBatches(2, max_buffering_duration_secs=5)


# --- Each kind of state, against plain Python


def fresh(spec: Any) -> tuple[Any, Any]:
    """A state of one key in a store that keeps snapshots, and the store."""
    store = KeyedState(tracking=True)
    return spec.of(store, "window", "key"), store


small = st.integers(0, 5)


@given(st.lists(st.one_of(st.tuples(st.just("write"), small), st.just(("clear", 0)), st.just(("snapshot", 0)))))
def test_a_value_is_the_last_one_written(operations: list[tuple[str, int]]) -> None:
    """Or None."""
    state, store = fresh(ReadModifyWriteStateSpec("state"))
    model: int | None = None
    for operation, value in operations:
        if operation == "write":
            state.write(value)
            model = value
        elif operation == "clear":
            state.clear()
            model = None
        else:
            store.snapshot()
        assert model == state.read()


@given(st.lists(st.one_of(st.tuples(st.just("add"), small), st.just(("clear", 0)), st.just(("snapshot", 0)))))
def test_a_bag_is_a_list(operations: list[tuple[str, int]]) -> None:
    """Whenever snapshots are taken; each of which stays what it was."""
    state, store = fresh(BagStateSpec("state"))
    model: list[int] = []
    snapshots = []
    for operation, value in operations:
        if operation == "add":
            state.add(value)
            model.append(value)
        elif operation == "clear":
            state.clear()
            model = []
        else:
            snapshots.append((list(model), store.snapshot()))
        assert (model, not model) == (state.read(), state.is_empty())
    for expected, changes in snapshots:
        assert expected == [value for change in changes for value in change.value]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["add", "remove", "contains"]), small),
            st.just(("clear", 0)),
            st.just(("snapshot", 0)),
        )
    )
)
def test_a_set_is_a_set(operations: list[tuple[str, int]]) -> None:
    """Its order that of the first additions."""
    state, store = fresh(SetStateSpec("state"))
    model: dict[int, None] = {}
    for operation, value in operations:
        if operation == "add":
            state.add(value)
            model.setdefault(value)
        elif operation == "remove":
            state.remove(value)
            model.pop(value, None)
        elif operation == "contains":
            assert (value in model) == state.contains(value)
        elif operation == "clear":
            state.clear()
            model = {}
        else:
            store.snapshot()
        assert (list(model), not model) == (state.read(), state.is_empty())


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["put", "put_if_absent", "remove", "get"]), small, small),
            st.just(("clear", 0, 0)),
            st.just(("snapshot", 0, 0)),
        )
    )
)
def test_a_map_is_a_dictionary(operations: list[tuple[str, int, int]]) -> None:
    """In the order of insertion."""
    state, store = fresh(MapStateSpec("state"))
    model: dict[int, int] = {}
    for operation, name, value in operations:
        if operation == "put":
            state.put(name, value)
            model[name] = value
        elif operation == "put_if_absent":
            assert model.get(name) == state.put_if_absent(name, value)
            model.setdefault(name, value)
        elif operation == "remove":
            state.remove(name)
            model.pop(name, None)
        elif operation == "get":
            assert (model.get(name, -1), name in model) == (state.get(name, -1), state.contains(name))
        elif operation == "clear":
            state.clear()
            model = {}
        else:
            store.snapshot()
        assert list(model.items()) == state.items() == list(zip(state.keys(), state.values(), strict=True))
        assert (not model) == state.is_empty()


@given(st.lists(st.one_of(st.tuples(st.just("add"), small), st.just(("clear", 0)), st.just(("snapshot", 0)))))
def test_a_combining_value_is_its_combiners_result(operations: list[tuple[str, int]]) -> None:
    """For combiners that change their accumulator in place too."""
    total, store = fresh(CombiningValueStateSpec("total", sum))
    inputs = CombiningValueStateSpec("inputs", beam.combiners.ToListCombineFn()).of(store, "window", "key")
    model: list[int] = []
    snapshots = []
    for operation, value in operations:
        if operation == "add":
            total.add(value)
            inputs.add(value)
            model.append(value)
        elif operation == "clear":
            total.clear()
            inputs.clear()
            model = []
        else:
            snapshots.append((list(model), store.snapshot()))
        assert (sum(model), model) == (total.read(), inputs.read())
    for expected, changes in snapshots:
        assert not expected or expected == next(c.value.value for c in changes if c.name == "inputs")


def test_what_was_read_of_a_state_is_the_callers_to_change() -> None:
    """It doesn't change the state."""
    store = DictStore()
    for spec in (BagStateSpec("bag"), CombiningValueStateSpec("inputs", beam.combiners.ToListCombineFn())):
        state = spec.of(store)
        state.add(1)
        state.read().append(2)
        assert [1] == state.read()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), small, small),
            st.tuples(st.sampled_from(["read_range", "clear_range"]), small, small),
            st.just(("clear", 0, 0)),
            st.just(("snapshot", 0, 0)),
        )
    )
)
def test_an_ordered_list_is_a_sorted_list(operations: list[tuple[str, int, int]]) -> None:
    """A range has its beginning and not its end; what has one time stands in the order of its coming."""
    state, store = fresh(OrderedListStateSpec("state"))
    model: list[tuple[int, int]] = []
    for operation, time, other in operations:
        if operation == "add":
            state.add((time, other))
            model.append((time, other))
            model.sort(key=lambda pair: pair[0])
        elif operation == "read_range":
            assert [pair for pair in model if time <= pair[0] < other] == state.read_range(time, other)
        elif operation == "clear_range":
            state.clear_range(time, other)
            model = [pair for pair in model if not time <= pair[0] < other]
        elif operation == "clear":
            state.clear()
            model = []
        else:
            store.snapshot()
        assert [(Timestamp(at), value) for at, value in model] == state.read()
        assert (not model) == state.is_empty()


def test_an_ordered_list_takes_pairs() -> None:
    """Of a timestamp and a value."""
    with pytest.raises(TypeError, match=r"OrderedListStateSpec\(log\).add takes a pair"):
        OrderedListStateSpec("log").of(DictStore()).add(5)
