"""Events of a mobile game: their generator, their parser, and an injector that plays them as a stream with late data.

An event says that a user has scored for a team. A line of data/game_events.csv is an event in the order of arrival:

    user,team,score,event_time,arrival_time

One event in ten is late: the user's telephone had no connection. Three lines can't be parsed, and two users are robots.
As a program, this file prints the events of `--seed`.
"""

import argparse
import itertools
import os
import random
from typing import NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from samples import DATA

EVENTS = os.path.join(DATA, "game_events.csv")
NINE_O_CLOCK = 1_700_038_800
MINUTE = 60
HOUR = 60 * MINUTE
TEAMS = ["amber", "coral", "jade", "onyx"]


class GameEvent(NamedTuple):
    user: str
    team: str
    score: int
    event_time: int
    arrival_time: int


class ParseEvents(beam.DoFn):
    """Parse lines to GameEvents, and count those that aren't events."""

    def __init__(self):
        self.errors = Metrics.counter(self.__class__, "parse_errors")

    def process(self, line):
        try:
            yield parse(line)
        except (TypeError, ValueError):
            self.errors.inc()


class ReadEvents(beam.PTransform):
    """The events of a file as a whole, with their event times."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def expand(self, p):
        return (
            p
            | beam.io.ReadFromText(self.path)
            | beam.ParDo(ParseEvents())
            | beam.Map(lambda event: TimestampedValue(event, event.event_time))
        )


class InjectEvents(beam.PTransform):
    """The events of a file as a stream: each comes in the minute of its arrival.

    The watermark is five minutes behind, and an event that comes later than that is late.
    """

    def __init__(self, path):
        super().__init__()
        self.path = path

    def expand(self, p):
        stream, clock = TestStream(), 0
        for minute, arrivals in itertools.groupby(events_of(self.path), lambda event: event.arrival_time // MINUTE):
            now = minute * MINUTE
            stream.advance_processing_time(now - clock)
            stream.advance_watermark_to(now - 5 * MINUTE)
            for event in arrivals:
                # A bundle of its own for each event: between two bundles, Beam looks whether a trigger fires.
                stream.add_elements([TimestampedValue(event, event.event_time)])
            clock = now
        return p | stream.advance_processing_time(HOUR).advance_watermark_to_infinity()


def parse(line):
    """Return the event of a line."""
    user, team, score, event_time, arrival_time = line.split(",")
    return GameEvent(user, team, int(score), int(event_time), int(arrival_time))


def events_of(path):
    """Yield the events of a file, without those that can't be parsed."""
    with open(path) as lines:
        for line in lines:
            try:
                yield parse(line)
            except (TypeError, ValueError):
                continue


def generate(seed):
    """Return the lines of a game of two hours, in the order of arrival."""
    draw = random.Random(seed)
    events = []
    for number in range(16):
        team = TEAMS[number % len(TEAMS)]
        robot = number in (5, 10)
        time = NINE_O_CLOCK + draw.randrange(20 * MINUTE)
        while time < NINE_O_CLOCK + 2 * HOUR:
            late = draw.random() < 0.1
            arrival = time + draw.randrange(2 * MINUTE) + (draw.randrange(10 * MINUTE, HOUR) if late else 0)
            score = draw.randint(15, 20) if robot else draw.randint(0, 12)
            name = f"robot{number}" if robot else f"user{number}"
            events.append(GameEvent(name, team, score, time, arrival))
            # A player makes a pause after one event in six; a robot doesn't.
            pause = not robot and draw.random() < 1 / 6
            time += draw.randrange(20 * MINUTE, 50 * MINUTE) if pause else draw.randrange(2 * MINUTE, 8 * MINUTE)
    events.sort(key=lambda event: event.arrival_time)
    lines = [",".join(map(str, event)) for event in events]
    for place in draw.sample(range(len(lines)), 3):
        lines.insert(place, lines[place].partition(",")[0] + ",?")
    return lines


def run(argv=None):
    parser = argparse.ArgumentParser(description="Print the events of a game.")
    parser.add_argument("--seed", type=int, default=14, help="What the events are drawn from.")
    print(*generate(parser.parse_args(argv).seed), sep="\n")


if __name__ == "__main__":
    run()
