"""Splittable DoFns, watermark estimators, restriction trackers, and watching."""

import apache_beam as beam
from apache_beam.io.iobase import RestrictionProgress
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import (
    ManualWatermarkEstimator,
    MonotonicWatermarkEstimator,
    WalltimeWatermarkEstimator,
)
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.periodicsequence import PeriodicImpulse, PeriodicSequence
from apache_beam.utils.timestamp import Duration, Timestamp
from refusals import refused


class _Letters(RestrictionProvider):
    def initial_restriction(self, element):
        return OffsetRange(0, len(element))

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.size()


class _Spelled(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(_Letters())):
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield element[position]
            position += 1


def a_splittable_dofn() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["abc", "", "d"]) | beam.ParDo(_Spelled()) | beam.Map(print)


def bounded_work_that_is_deferred() -> None:
    class Slow(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(_Letters())):
            position = tracker.current_restriction().start
            if tracker.try_claim(position):
                yield element[position]
                tracker.defer_remainder(Duration(0.1))

    with beam.Pipeline() as p:
        p | beam.Create(["abc"]) | beam.ParDo(Slow()) | beam.Map(print)


def a_dofn_that_is_its_own_provider() -> None:
    class Spelled(beam.DoFn, RestrictionProvider):
        def process(self, element, tracker=beam.DoFn.RestrictionParam()):
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                yield element[position]
                position += 1

        def initial_restriction(self, element):
            return OffsetRange(0, len(element))

        def create_tracker(self, restriction):
            return OffsetRestrictionTracker(restriction)

        def restriction_size(self, element, restriction):
            return restriction.size()

    with beam.Pipeline() as p:
        p | beam.Create(["abc", "d"]) | beam.ParDo(Spelled()) | beam.Map(print)


def initial_splits() -> None:
    class Halves(_Letters):
        def split(self, element, restriction):
            yield from restriction.split(2, 1)

    class Spelled(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Halves())):
            start, stop = tracker.current_restriction().start, tracker.current_restriction().stop
            for position in range(start, stop):
                if not tracker.try_claim(position):
                    return
            yield element[start:stop]

    with beam.Pipeline() as p:
        p | beam.Create(["abcde"]) | beam.ParDo(Spelled()) | beam.Map(print)


def arguments_of_a_splittable_dofn() -> None:
    class Spelled(beam.DoFn):
        def process(self, element, suffix, tracker=beam.DoFn.RestrictionParam(_Letters())):
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                yield element[position] + suffix
                position += 1

    with beam.Pipeline() as p:
        p | beam.Create(["ab"]) | beam.ParDo(Spelled(), "!") | beam.Map(print)


def a_watermark_estimator() -> None:
    class Stamped(beam.DoFn):
        def process(
            self,
            element,
            tracker=beam.DoFn.RestrictionParam(_Letters()),
            estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
        ):
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                estimator.set_watermark(Timestamp(position))
                yield beam.window.TimestampedValue(element[position], position)
                position += 1

    with beam.Pipeline() as p:
        (
            p
            | beam.Create(["ab"])
            | beam.ParDo(Stamped())
            | beam.Map(lambda x, at=beam.DoFn.TimestampParam: (x, at))
            | beam.Map(print)
        )


def offset_ranges() -> None:
    one = OffsetRange(0, 10)
    print(
        one.start,
        one.stop,
        one.size(),
        one == OffsetRange(0, 10),
        one != OffsetRange(0, 9),
        len({one, OffsetRange(0, 10)}),
    )
    print([(part.start, part.stop) for part in one.split(3)], [(part.start, part.stop) for part in one.split(3, 5)])
    print([(part.start, part.stop) for part in one.split_at(4)])
    with refused(ValueError):
        OffsetRange(5, 3)


def trackers_of_ranges() -> None:
    tracker = OffsetRestrictionTracker(OffsetRange(0, 5))
    print(tracker.try_claim(0), tracker.try_claim(3), tracker.try_claim(5), tracker.current_restriction().stop)
    tracker.check_done()
    print(tracker.is_bounded())


def trackers_check_that_all_is_claimed() -> None:
    tracker = OffsetRestrictionTracker(OffsetRange(0, 5))
    tracker.try_claim(1)
    with refused(ValueError):
        tracker.check_done()
    with refused(ValueError):
        tracker.try_claim(0)


def trackers_split() -> None:
    tracker = OffsetRestrictionTracker(OffsetRange(0, 10))
    tracker.try_claim(2)
    primary, residual = tracker.try_split(0.5)
    print((primary.start, primary.stop), (residual.start, residual.stop), tracker.current_restriction().stop)


def progress() -> None:
    found = RestrictionProgress(completed=1, remaining=3)
    print(found.completed_work, found.remaining_work, found.total_work, found.fraction_completed)
    print(found.fraction_remaining)
    share = RestrictionProgress(fraction=0.25)
    print(share.completed_work, share.remaining_work, share.fraction_completed, share.total_work)


def manual_estimators() -> None:
    estimator = ManualWatermarkEstimator(Timestamp(5))
    print(estimator.current_watermark(), estimator.get_estimator_state())
    estimator.set_watermark(Timestamp(7))
    print(estimator.current_watermark())
    with refused(ValueError):
        estimator.set_watermark(Timestamp(3))
    with refused(ValueError):
        estimator.set_watermark(3)


def monotonic_estimators() -> None:
    estimator = MonotonicWatermarkEstimator(Timestamp(5))
    print(estimator.current_watermark())
    estimator.observe_timestamp(Timestamp(8))
    print(estimator.current_watermark())


def timestamps_that_go_back() -> None:
    estimator = MonotonicWatermarkEstimator(Timestamp(5))
    estimator.observe_timestamp(Timestamp(8))
    estimator.observe_timestamp(Timestamp(6))
    print(estimator.current_watermark())


def walltime_estimators() -> None:
    estimator = WalltimeWatermarkEstimator(Timestamp(5))
    print(estimator.current_watermark() > Timestamp(5), estimator.get_estimator_state() > Timestamp(0))


def a_periodic_impulse() -> None:
    start = Timestamp(1000)
    with beam.Pipeline() as p:
        p | PeriodicImpulse(start, start + 3, fire_interval=1) | beam.Map(float) | beam.Map(print)


def a_periodic_impulse_with_data() -> None:
    start = Timestamp(1000)
    with beam.Pipeline() as p:
        p | PeriodicImpulse(start, start + 2, fire_interval=1, data=["a", "b"]) | beam.Map(print)


def a_periodic_impulse_with_windows() -> None:
    start = Timestamp(1000)
    with beam.Pipeline() as p:
        (
            p
            | PeriodicImpulse(start, start + 2, fire_interval=1, apply_windowing=True)
            | beam.Map(lambda x, w=beam.DoFn.WindowParam: w)
            | beam.Map(print)
        )


def a_periodic_sequence() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([(Timestamp(1000), Timestamp(1003), 1)])
            | PeriodicSequence()
            | beam.Map(float)
            | beam.Map(print)
        )


def sequences_of_a_dofn() -> None:
    import time

    from apache_beam.transforms.periodicsequence import ImpulseSeqGenDoFn

    begin = int(time.time()) - 3
    with beam.Pipeline() as p:
        words = p | beam.Create([(begin, begin + 3, 1)]) | beam.ParDo(ImpulseSeqGenDoFn(["a", "b"]))
        words | beam.Map(print)
