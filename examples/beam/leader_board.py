"""Mobile game, 3: scores of teams and users while the game is played, corrected when late events arrive.

The score of a team in half an hour is put out after each five events, on time when the watermark passes the end of the
window, and again for each late event. The scores of users are totals, put out every half an hour.
"""

import argparse

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Repeatedly,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.windowed_value import PaneInfoTiming
from game_events import EVENTS, HOUR, MINUTE, InjectEvents
from samples import WriteOrPrint


class TeamScores(beam.PTransform):
    """The score of each team by window: early, on time and late."""

    def expand(self, events):
        return (
            events
            | beam.WindowInto(
                FixedWindows(30 * MINUTE),
                trigger=AfterWatermark(early=AfterCount(5), late=AfterCount(1)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
                allowed_lateness=2 * HOUR,
            )
            | beam.Map(lambda event: (event.team, event.score))
            | beam.CombinePerKey(sum)
        )


class UserScores(beam.PTransform):
    """The total of each user, updated while the user plays."""

    def expand(self, events):
        return (
            events
            | beam.WindowInto(
                GlobalWindows(),
                trigger=Repeatedly(AfterProcessingTime(30 * MINUTE)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
            )
            | beam.Map(lambda event: (event.user, event.score))
            | beam.CombinePerKey(sum)
        )


def team_line(scored, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    team, score = scored
    timing = PaneInfoTiming.to_string(pane.timing)
    return f"team {team} {window.start.to_utc_datetime():%H:%M} pane {pane.index} {timing}: {score}"


def user_line(scored, pane=beam.DoFn.PaneInfoParam):
    user, score = scored
    return f"user {user} pane {pane.index}: {score}"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Scores of teams and users.")
    parser.add_argument("--input", default=EVENTS, help="Events of the game, as game_events.py prints them.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    args, pipeline_args = parser.parse_known_args(argv)
    options = PipelineOptions(pipeline_args)
    options.view_as(StandardOptions).streaming = True

    with beam.Pipeline(options=options) as p:
        events = p | "Inject" >> InjectEvents(args.input)
        teams = events | "Teams" >> TeamScores() | "TeamLines" >> beam.Map(team_line)
        users = events | "Users" >> UserScores() | "UserLines" >> beam.Map(user_line)
        # Flatten's inputs have one windowing.
        (
            [lines | f"Lines{i}" >> beam.WindowInto(GlobalWindows()) for i, lines in enumerate([teams, users])]
            | beam.Flatten()
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
