"""Dead letters."""

import apache_beam as beam
from refusals import refused


def _inverse(x):
    return 1 / x


def failed_elements_of_map() -> None:
    with beam.Pipeline() as p:
        good, bad = p | beam.Create([1, 0, 2]) | beam.Map(_inverse).with_exception_handling()
        good | "1" >> beam.Map(lambda x: print("good", x))
        bad | "2" >> beam.Map(lambda x: print("bad", x[0], x[1][0].__name__, x[1][1], len(x[1])))


def tags_of_outputs() -> None:
    with beam.Pipeline() as p:
        found = (
            p | beam.Create([1, 0]) | beam.Map(_inverse).with_exception_handling(main_tag="ok", dead_letter_tag="dead")
        )
        found.ok | "1" >> beam.Map(lambda x: print("ok", x))
        found.dead | "2" >> beam.Map(lambda x: print("dead", x[0]))


def default_tags_of_outputs() -> None:
    with beam.Pipeline() as p:
        found = p | beam.Create([1, 0]) | beam.Map(_inverse).with_exception_handling()
        found.good | "1" >> beam.Map(lambda x: print("good", x))
        found.bad | "2" >> beam.Map(lambda x: print("bad", x[0]))


def other_exceptions_fail() -> None:
    with refused(ZeroDivisionError), beam.Pipeline() as p:
        _ = p | beam.Create([0]) | beam.Map(_inverse).with_exception_handling(exc_class=ValueError)


def several_classes() -> None:
    with beam.Pipeline() as p:
        good, bad = (
            p
            | beam.Create(["1", "x", 0])
            | beam.Map(lambda x: 1 / int(x)).with_exception_handling(exc_class=(ValueError, ZeroDivisionError))
        )
        good | "1" >> beam.Map(lambda x: print("good", x))
        bad | "2" >> beam.Map(lambda x: print("bad", x[0]))


def outputs_of_a_failed_call_are_dropped() -> None:
    def some(x):
        yield x
        yield 1 / x

    with beam.Pipeline() as p:
        good, bad = p | beam.Create([1, 0]) | beam.FlatMap(some).with_exception_handling()
        good | "1" >> beam.Map(lambda x: print("good", x))
        bad | "2" >> beam.Map(lambda x: print("bad", x[0]))


def partial_outputs_of_a_failed_call() -> None:
    def some(x):
        yield x
        yield 1 / x

    with beam.Pipeline() as p:
        good, bad = p | beam.Create([1, 0]) | beam.FlatMap(some).with_exception_handling(partial=True)
        good | "1" >> beam.Map(lambda x: print("good", x))
        bad | "2" >> beam.Map(lambda x: print("bad", x[0]))


def failed_elements_of_filter() -> None:
    with beam.Pipeline() as p:
        good, bad = p | beam.Create([1, 0, 9]) | beam.Filter(lambda x: 1 / x > 0.5).with_exception_handling()
        good | "1" >> beam.Map(lambda x: print("good", x))
        bad | "2" >> beam.Map(lambda x: print("bad", x[0]))


class _Divide(beam.DoFn):
    def process(self, element, by=1):
        if element < 0:
            yield beam.pvalue.TaggedOutput("negative", element)
        else:
            yield by / element


def failed_elements_of_a_dofn() -> None:
    with beam.Pipeline() as p:
        good, bad = p | beam.Create([1, 0]) | beam.ParDo(_Divide(), by=2).with_exception_handling()
        good | "1" >> beam.Map(lambda x: print("good", x))
        bad | "2" >> beam.Map(lambda x: print("bad", x[0]))


def failed_elements_beside_other_outputs() -> None:
    with beam.Pipeline() as p:
        found = (
            p
            | beam.Create([1, 0, -1])
            | beam.ParDo(_Divide()).with_exception_handling().with_outputs("negative", main="good")
        )
        found.good | "1" >> beam.Map(lambda x: print("good", x))
        found.negative | "2" >> beam.Map(lambda x: print("negative", x))


def a_threshold_that_is_exceeded() -> None:
    with refused(Exception), beam.Pipeline() as p:
        _ = p | beam.Create([1, 0, 0]) | beam.Map(_inverse).with_exception_handling(threshold=0.5)


def a_threshold_that_is_not_exceeded() -> None:
    with beam.Pipeline() as p:
        good, _ = p | beam.Create([1, 2, 0]) | beam.Map(_inverse).with_exception_handling(threshold=0.5)
        good | beam.Map(print)


def a_timeout() -> None:
    import time

    with beam.Pipeline() as p:
        good, bad = (
            p | beam.Create([0, 0.8]) | beam.Map(lambda x: time.sleep(x) or x).with_exception_handling(timeout=0.4)
        )
        good | "1" >> beam.Map(lambda x: print("good", x))
        bad | "2" >> beam.Map(lambda x: print("bad", x[0], x[1][0].__name__))


def a_callback_on_failure() -> None:
    def tell(error, element):
        print("callback", type(error).__name__, element)

    with beam.Pipeline() as p:
        good, _ = p | beam.Create([1, 0]) | beam.Map(_inverse).with_exception_handling(on_failure_callback=tell)
        good | "1" >> beam.Map(lambda x: print("good", x))


def an_error_handler() -> None:
    from apache_beam.transforms.error_handling import ErrorHandler

    with beam.Pipeline() as p, ErrorHandler(beam.Map(lambda letter: print("handled", letter[0]))) as handler:
        p | beam.Create([1, 0]) | beam.Map(_inverse).with_error_handler(handler) | beam.Map(print)


def one_error_handler_of_two_transforms() -> None:
    from apache_beam.transforms.error_handling import ErrorHandler

    with beam.Pipeline() as p, ErrorHandler(beam.Map(lambda letter: print("handled", letter[0]))) as handler:
        values = p | beam.Create([1, 0])
        values | "a" >> beam.Map(_inverse).with_error_handler(handler) | "1" >> beam.Map(print)
        values | "b" >> beam.Map(_inverse).with_error_handler(handler) | "2" >> beam.Map(print)


def a_collecting_error_handler() -> None:
    from apache_beam.transforms.error_handling import CollectingErrorHandler

    with beam.Pipeline() as p:
        with CollectingErrorHandler() as handler:
            p | beam.Create([1, 0]) | beam.Map(_inverse).with_error_handler(handler) | "1" >> beam.Map(print)
        handler.output() | "2" >> beam.Map(lambda letter: print("collected", letter[0]))


def an_error_handler_that_is_not_closed() -> None:
    from apache_beam.transforms.error_handling import CollectingErrorHandler

    with refused(Exception), beam.Pipeline() as p:
        handler = CollectingErrorHandler()
        p | beam.Create([1, 0]) | beam.Map(_inverse).with_error_handler(handler) | beam.Map(print)


def failed_elements_of_map_tuple() -> None:
    with beam.Pipeline() as p:
        good, bad = p | beam.Create([(1, 1), (1, 0)]) | beam.MapTuple(lambda a, b: a / b).with_exception_handling()
        good | "1" >> beam.Map(lambda x: print("good", x))
        bad | "2" >> beam.Map(lambda x: print("bad", x[0]))
