"""Mobile game, 4: scores of teams without those of robots, and how long users play.

A user whose score in an hour is more than twice the mean is taken for a robot: the robots of a window are a side input
of that window's scores. The second half measures sessions, which a pause of fifteen minutes ends.
"""

import argparse

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampCombiner
from game_events import EVENTS, HOUR, MINUTE, ReadEvents
from samples import WriteOrPrint


class Robots(beam.PTransform):
    """The users of each window whose score is far above the window's mean, with their scores."""

    def expand(self, events):
        totals = events | beam.Map(lambda event: (event.user, event.score)) | beam.CombinePerKey(sum)
        mean = totals | beam.Values() | beam.CombineGlobally(beam.combiners.MeanCombineFn()).as_singleton_view()
        return totals | "FarAbove" >> beam.Filter(lambda total, mean: total[1] > 2 * mean, mean)


class SessionMinutes(beam.PTransform):
    """The mean length of the sessions that end in each hour, in minutes."""

    def expand(self, events):
        return (
            events
            | beam.Map(lambda event: (event.user, event.event_time))
            | beam.WindowInto(Sessions(15 * MINUTE), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EOW)
            | beam.CombinePerKey(max)
            | beam.MapTuple(self.minutes)
            | "HourOfEnd" >> beam.WindowInto(FixedWindows(HOUR))
            | beam.CombineGlobally(beam.combiners.MeanCombineFn()).without_defaults()
        )

    def minutes(self, _user, last, window=beam.DoFn.WindowParam):
        return (last - float(window.start)) / MINUTE


def labelled(label, window=beam.DoFn.WindowParam):
    """Return the label with the start of the window."""
    return f"{window.start.to_utc_datetime():%H:%M} {label}"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Scores without robots, and lengths of sessions.")
    parser.add_argument("--input", default=EVENTS, help="Events of the game, as game_events.py prints them.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        events = p | "Read" >> ReadEvents(args.input)
        hours = events | "Hours" >> beam.WindowInto(FixedWindows(HOUR))
        robots = hours | "Robots" >> Robots()
        teams = (
            hours
            | "Humans" >> beam.Filter(lambda event, robots: event.user not in robots, beam.pvalue.AsDict(robots))
            | "ByTeam" >> beam.Map(lambda event: (event.team, event.score))
            | "Sum" >> beam.CombinePerKey(sum)
        )
        sessions = events | "Sessions" >> SessionMinutes()

        lines = {
            "OfRobots": robots | beam.MapTuple(lambda user, score: f"robot {user}: {score}"),
            "OfTeams": teams | beam.MapTuple(lambda team, score: f"team {team}: {score}"),
            "OfSessions": sessions | beam.Map(lambda minutes: f"sessions: {minutes:.1f} minutes on average"),
        }
        (
            [
                of_a_kind | f"Label{kind}" >> beam.Map(labelled) | f"All{kind}" >> beam.WindowInto(GlobalWindows())
                for kind, of_a_kind in lines.items()
            ]
            | beam.Flatten()
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
