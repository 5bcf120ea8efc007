"""State: emit each page that a user visits in a day once, and forget the pages at the end of the day."""

import argparse
import os

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import SetStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from samples import DATA, WriteOrPrint

HOUR = 3600
DAY = 24 * HOUR


class FirstVisits(beam.DoFn):
    """Emit `(user, page)` for the first visit of each page, by key and window."""

    SEEN = SetStateSpec("seen", StrUtf8Coder())
    FORGET = TimerSpec("forget", TimeDomain.WATERMARK)

    def process(
        self,
        visit,
        window=beam.DoFn.WindowParam,
        seen=beam.DoFn.StateParam(SEEN),
        forget=beam.DoFn.TimerParam(FORGET),
    ):
        _user, page = visit
        if page in seen.read():
            return
        seen.add(page)
        forget.set(window.end)
        yield visit

    @on_timer(FORGET)
    def forget(self, seen=beam.DoFn.StateParam(SEEN)):
        seen.clear()


def parse(line):
    time, user, page = line.split(",")
    return TimestampedValue((user, page), int(time))


def with_window(visit, window=beam.DoFn.WindowParam):
    return f"{window.start.to_utc_datetime():%Y-%m-%d} {' '.join(visit)}"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Print the distinct pages of each user and day.")
    parser.add_argument("--input", default=os.path.join(DATA, "visits.csv"), help="Visits: time, user and page.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | "Read" >> beam.io.ReadFromText(args.input, skip_header_lines=1)
            | "Parse" >> beam.Map(parse).with_output_types(tuple[str, str])
            | "Days" >> beam.WindowInto(FixedWindows(DAY))
            | "First" >> beam.ParDo(FirstVisits())
            | "Format" >> beam.Map(with_window)
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
