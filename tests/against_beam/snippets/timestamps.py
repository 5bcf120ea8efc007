"""Timestamps and durations."""

import datetime

from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from refusals import refused


def timestamps() -> None:
    print(Timestamp(5), Timestamp(1.5), Timestamp(micros=7), Timestamp(1, micros=5), repr(Timestamp(-1.25)))


def of() -> None:
    print(Timestamp.of(5), Timestamp.of(2.5), Timestamp.of(Timestamp(3)), Timestamp.of(Timestamp(3)) == 3)
    with refused(TypeError, ValueError):
        Timestamp.of("x")


def comparisons() -> None:
    print(
        Timestamp(5) < Timestamp(6),
        Timestamp(5) == 5,
        Timestamp(5) >= 5.0,
        Timestamp(5) != Timestamp(5),
        4 < Timestamp(5),
    )


def arithmetic() -> None:
    print(
        Timestamp(5) + 3, Timestamp(5) + Duration(2), 3 + Timestamp(5), Timestamp(5) - 3, Timestamp(5) - Duration(1.5)
    )
    print(Timestamp(5) - Timestamp(3), type(Timestamp(5) - Timestamp(3)).__name__)
    print(Timestamp(17) % 5, Timestamp(17) % Duration(5))


def conversions() -> None:
    print(int(Timestamp(5.7)), float(Timestamp(5.7)), Timestamp(5.7).micros, Timestamp(5.7).seconds())


def rfc3339() -> None:
    print(Timestamp(0).to_rfc3339(), Timestamp(1.5).to_rfc3339(), Timestamp(1700000000).to_rfc3339())
    print(Timestamp.from_rfc3339("2020-01-02T03:04:05Z"), Timestamp.from_rfc3339("2020-01-02T03:04:05.678Z"))
    print(Timestamp.from_rfc3339("2020-01-02T03:04:05+01:00"))
    with refused(ValueError):
        Timestamp.from_rfc3339("yesterday")


def datetimes() -> None:
    print(Timestamp(1.5).to_utc_datetime(), Timestamp(1.5).to_utc_datetime(has_tz=True))
    print(Timestamp.from_utc_datetime(datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC)))
    with refused(ValueError):
        Timestamp.from_utc_datetime(datetime.datetime(2020, 1, 2))


def neighbours() -> None:
    print(Timestamp(5).predecessor(), Timestamp(5).successor())


def hashes() -> None:
    print(hash(Timestamp(5)) == hash(Timestamp(5)), {Timestamp(5): "a"}[Timestamp(5)])


def limits() -> None:
    print(MIN_TIMESTAMP, MAX_TIMESTAMP, MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, MIN_TIMESTAMP < 0 < MAX_TIMESTAMP)


def durations() -> None:
    print(Duration(5), Duration(1.5), repr(Duration(micros=7)), Duration(1, micros=5).micros)
    print(Duration.of(5), Duration.of(Duration(2)), Duration(5) == 5, Duration(5) < Duration(6), Duration(5) > 4)


def arithmetic_of_durations() -> None:
    print(Duration(5) + Duration(2), Duration(5) - 2, -Duration(5), Duration(5) * 3, 2 * Duration(5), Duration(17) % 5)
    print(Duration(5) + 1.5, float(Duration(2.5)), Timestamp(1) + Duration(2))


def durations_that_are_refused() -> None:
    with refused(TypeError, ValueError):
        Duration.of("x")
    with refused(TypeError, ValueError):
        Duration.of(Timestamp(1))


def text_of_seconds() -> None:
    print(str(Timestamp(10)), str(Timestamp(10.25)), str(Duration(3)), str(Duration(0.5)))


def timestamps_as_integers() -> None:
    print(Timestamp(5).micros, int(Timestamp(7)), Timestamp(seconds=3, micros=4).micros)


def nanoseconds() -> None:
    precise = Timestamp(1, 123456789, Timestamp.NANOS_PRECISION)
    print(precise, precise + 1, precise.precision(), precise.seconds(), precise.subseconds(), precise.nanos)
    print(precise.to_precision(6, allow_lossy_conversion=True), Timestamp(1, 500, precision=3))
    print(precise > Timestamp(1.123456), Timestamp(1.5) == Timestamp(1, 500, precision=3))
    print(Timestamp.from_rfc3339("2020-01-01T00:00:00.123456789Z").to_rfc3339())
    for lossy in (lambda: precise.micros, precise.to_utc_datetime, lambda: precise - Timestamp(1)):
        with refused(ValueError):
            lossy()
