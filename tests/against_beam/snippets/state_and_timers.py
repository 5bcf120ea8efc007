"""State and timers."""

import apache_beam as beam
from apache_beam.coders import PickleCoder, StrUtf8Coder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    is_stateful_dofn,
    on_timer,
    validate_stateful_dofn,
)
from apache_beam.utils.timestamp import Timestamp
from refusals import refused


class _Numbered(beam.DoFn):
    COUNT = CombiningValueStateSpec("count", combine_fn=sum)

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        yield element[0], count.read()


def a_combining_state() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([("a", 1), ("a", 2), ("b", 3)]) | beam.ParDo(_Numbered()) | beam.Map(print)


def a_value_state() -> None:
    class Last(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last", VarIntCoder())

        def process(self, element, last=beam.DoFn.StateParam(LAST)):
            before = last.read()
            last.write(element[1])
            yield element[0], before is None, last.read() == element[1]
            last.clear()

    with beam.Pipeline() as p:
        p | beam.Create([("a", 1), ("a", 2)]) | beam.ParDo(Last()) | beam.Map(print)


def a_bag_state() -> None:
    class Collected(beam.DoFn):
        BAG = BagStateSpec("bag", StrUtf8Coder())

        def process(self, element, bag=beam.DoFn.StateParam(BAG)):
            bag.add(element[1])
            found = sorted(bag.read())
            if len(found) == 3:
                yield element[0], found
                bag.clear()

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", x) for x in "xyzuvw"] + [("b", "q")])
            | beam.ParDo(Collected())
            | beam.combiners.Count.PerKey()
            | beam.Map(print)
        )


def a_set_state() -> None:
    class Distinct(beam.DoFn):
        SEEN = SetStateSpec("seen", VarIntCoder())

        def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
            if element[1] not in set(seen.read()):
                seen.add(element[1])
                yield element

    with beam.Pipeline() as p:
        p | beam.Create([("a", 1), ("a", 1), ("a", 2), ("b", 1)]) | beam.ParDo(Distinct()) | beam.Map(print)


def an_ordered_list_state() -> None:
    class Ordered(beam.DoFn):
        EVENTS = OrderedListStateSpec("events", StrUtf8Coder())

        def process(self, element, events=beam.DoFn.StateParam(EVENTS)):
            for at, value in element[1]:
                events.add((at, value))
            yield list(events.read())
            yield list(events.read_range(Timestamp(0), Timestamp(2)))

    with beam.Pipeline() as p:
        p | beam.Create([("a", [(Timestamp(3), "c"), (Timestamp(1), "a")])]) | beam.ParDo(Ordered()) | beam.Map(print)


def state_of_pickled_values() -> None:
    class Kept(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last", PickleCoder())

        def process(self, element, last=beam.DoFn.StateParam(LAST)):
            found = last.read() or {}
            found[element[1]] = 1
            last.write(found)
            yield len(found)

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", "x"), ("a", "y"), ("a", "x")])
            | beam.ParDo(Kept())
            | beam.CombineGlobally(max)
            | beam.Map(print)
        )


def state_by_window() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1), ("a", 2), ("a", 12)])
            | beam.Map(lambda kv: window.TimestampedValue(kv, kv[1]))
            | beam.WindowInto(window.FixedWindows(10))
            | beam.ParDo(_Numbered())
            | beam.Map(print)
        )


class _AtTheEnd(beam.DoFn):
    BAG = BagStateSpec("bag", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        bag=beam.DoFn.StateParam(BAG),
        end=beam.DoFn.TimerParam(END),
    ):
        bag.add(element[1])
        end.set(window.end)

    @on_timer(END)
    def at_the_end(
        self,
        key=beam.DoFn.KeyParam,
        window=beam.DoFn.WindowParam,
        at=beam.DoFn.TimestampParam,
        bag=beam.DoFn.StateParam(BAG),
    ):
        yield key, sorted(bag.read()), window, at


def a_timer_at_the_end_of_the_window() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1), ("a", 2), ("b", 3), ("a", 12)])
            | beam.Map(lambda kv: window.TimestampedValue(kv, kv[1]))
            | beam.WindowInto(window.FixedWindows(10))
            | beam.ParDo(_AtTheEnd())
            | beam.Map(print)
        )


def a_timer_in_a_stream() -> None:
    stream = (
        TestStream()
        .add_elements([window.TimestampedValue(("a", 1), 1)])
        .advance_watermark_to(5)
        .add_elements([window.TimestampedValue(("a", 2), 6)])
        .advance_watermark_to(11)
        .add_elements([window.TimestampedValue(("a", 3), 12)])
        .advance_watermark_to_infinity()
    )
    with beam.Pipeline(options=PipelineOptions(streaming=True)) as p:
        (
            p
            | stream
            | beam.WindowInto(window.FixedWindows(10))
            | beam.Map(lambda kv: kv).with_output_types(tuple[str, int])
            | beam.ParDo(_AtTheEnd())
            | beam.Map(print)
        )


def a_timer_that_is_cleared() -> None:
    class Cleared(beam.DoFn):
        TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

        def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
            timer.set(10)
            timer.clear()
            yield "processed"

        @on_timer(TIMER)
        def fire(self):
            yield "fired"

    with beam.Pipeline() as p:
        p | beam.Create([("a", 1)]) | beam.ParDo(Cleared()) | beam.Map(print)


def a_timer_that_is_set_twice() -> None:
    class Twice(beam.DoFn):
        TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

        def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
            timer.set(10)
            timer.set(20)

        @on_timer(TIMER)
        def fire(self, at=beam.DoFn.TimestampParam):
            yield "fired", at

    with beam.Pipeline() as p:
        p | beam.Create([("a", 1)]) | beam.ParDo(Twice()) | beam.Map(print)


def timers_by_tag() -> None:
    class Tagged(beam.DoFn):
        TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

        def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
            timer.set(10, dynamic_timer_tag="first")
            timer.set(20, dynamic_timer_tag="second")

        @on_timer(TIMER)
        def fire(self, tag=beam.DoFn.DynamicTimerTagParam, at=beam.DoFn.TimestampParam):
            yield tag, at

    with beam.Pipeline() as p:
        p | beam.Create([("a", 1)]) | beam.ParDo(Tagged()) | beam.Map(print)


def a_timer_that_sets_itself() -> None:
    class Ticking(beam.DoFn):
        TIMER = TimerSpec("timer", TimeDomain.WATERMARK)
        COUNT = CombiningValueStateSpec("count", combine_fn=sum)

        def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
            timer.set(1)

        @on_timer(TIMER)
        def fire(
            self,
            at=beam.DoFn.TimestampParam,
            timer=beam.DoFn.TimerParam(TIMER),
            count=beam.DoFn.StateParam(COUNT),
        ):
            count.add(1)
            if count.read() < 3:
                timer.set(at + 5)
            yield count.read(), at

    with beam.Pipeline() as p:
        p | beam.Create([("a", 1)]) | beam.ParDo(Ticking()) | beam.Map(print)


def a_timer_in_processing_time() -> None:
    class Delayed(beam.DoFn):
        BAG = BagStateSpec("bag", VarIntCoder())
        TIMER = TimerSpec("timer", TimeDomain.REAL_TIME)

        def process(self, element, bag=beam.DoFn.StateParam(BAG), timer=beam.DoFn.TimerParam(TIMER)):
            bag.add(element[1])
            timer.set(0)

        @on_timer(TIMER)
        def fire(self, bag=beam.DoFn.StateParam(BAG)):
            found = sorted(bag.read())
            bag.clear()
            if found:
                yield sum(found)

    with beam.Pipeline() as p:
        p | beam.Create([("a", 1), ("a", 2)]) | beam.ParDo(Delayed()) | beam.CombineGlobally(sum) | beam.Map(print)


def state_needs_keys() -> None:
    with refused(Exception), beam.Pipeline() as p:
        p | beam.Create([1]).with_output_types(int) | beam.ParDo(_Numbered()) | beam.Map(print)


def checks_of_dofns() -> None:
    print(is_stateful_dofn(_Numbered()), is_stateful_dofn(_AtTheEnd()), is_stateful_dofn(beam.DoFn()))
    validate_stateful_dofn(_AtTheEnd())


def a_timer_without_a_callback() -> None:
    class Silent(beam.DoFn):
        TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

        def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
            pass

    with refused(ValueError):
        validate_stateful_dofn(Silent())


def two_states_of_one_name() -> None:
    class Same(beam.DoFn):
        def process(
            self,
            element,
            one=beam.DoFn.StateParam(BagStateSpec("bag", VarIntCoder())),
            other=beam.DoFn.StateParam(BagStateSpec("bag", VarIntCoder())),
        ):
            pass

    with refused(ValueError):
        validate_stateful_dofn(Same())


def names_and_coders_that_are_refused() -> None:
    with refused(TypeError):
        BagStateSpec(123, VarIntCoder())
    with refused(TypeError):
        BagStateSpec("bag", object())
    with refused(TypeError):
        CombiningValueStateSpec("count", VarIntCoder(), object())
    with refused(ValueError):
        CombiningValueStateSpec("count", None, None)
    with refused(ValueError):
        TimerSpec("timer", "BOGUS")


def names_of_specs() -> None:
    print(BagStateSpec("bag", VarIntCoder()).name)
    print(TimerSpec("timer", TimeDomain.REAL_TIME).time_domain == TimeDomain.REAL_TIME)


def stateful_after_grouping() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1), ("a", 2)])
            | beam.GroupByKey()
            | beam.MapTuple(lambda k, vs: (k, sum(vs)))
            | beam.ParDo(_Numbered())
            | beam.Map(print)
        )


def outputs_of_timers_with_tags() -> None:
    class Tagged(beam.DoFn):
        TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

        def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
            timer.set(10)
            yield element

        @on_timer(TIMER)
        def fire(self, key=beam.DoFn.KeyParam):
            yield beam.pvalue.TaggedOutput("fired", key)

    with beam.Pipeline() as p:
        found = p | beam.Create([("a", 1)]) | beam.ParDo(Tagged()).with_outputs("fired", main="main")
        found.main | "1" >> beam.Map(lambda x: print("main", x))
        found.fired | "2" >> beam.Map(lambda x: print("fired", x))


def a_timer_that_is_due_when_a_stream_ends() -> None:
    class Buffered(beam.DoFn):
        DUE = TimerSpec("due", TimeDomain.WATERMARK)

        def process(self, element, time=beam.DoFn.TimestampParam, due=beam.DoFn.TimerParam(DUE)):
            due.set(time + 5)
            return [("element", element)]

        @on_timer(DUE)
        def fire(self, key=beam.DoFn.KeyParam):
            return [("timer", key)]

    stream = TestStream().add_elements([window.TimestampedValue(("k", 1), 1)]).advance_watermark_to_infinity()
    with beam.Pipeline(options=PipelineOptions(streaming=True)) as p:
        p | stream | beam.ParDo(Buffered()) | beam.Map(print)
