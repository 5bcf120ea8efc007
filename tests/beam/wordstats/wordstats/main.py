"""The program: counts of the words of files, to files or to BigQuery."""

import argparse

import apache_beam as beam
from apache_beam.io import ReadFromText, WriteToText
from apache_beam.io.gcp.bigquery import BigQueryDisposition, WriteToBigQuery
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, SetupOptions

from .transforms import CountWords, ExtractWords


class StatOptions(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_value_provider_argument("--least", type=int, default=1)


def write_to_table(table, disposition=BigQueryDisposition.WRITE_TRUNCATE):
    return WriteToBigQuery(table, schema="word:STRING,count:INTEGER", write_disposition=disposition)


class AtLeast(beam.DoFn):
    def __init__(self, least):
        self.least = least

    def process(self, stat):
        if stat.count >= self.least.get():
            yield stat


def run(argv=None, save_main_session=True):
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--output")
    parser.add_argument("--table")
    known, rest = parser.parse_known_args(argv)
    options = PipelineOptions(rest)
    options.view_as(SetupOptions).save_main_session = save_main_session
    options.view_as(GoogleCloudOptions).job_name = "wordstats"
    with beam.Pipeline(options=options) as p:
        words = p | ReadFromText(known.input) | beam.ParDo(ExtractWords(), stop_words={"the"})
        stats = words | CountWords() | beam.ParDo(AtLeast(options.view_as(StatOptions).least))
        if known.table:
            _ = stats | beam.Map(lambda stat: stat._asdict()) | write_to_table(known.table)
        else:
            _ = stats | beam.Map(lambda stat: f"{stat.word}: {stat.count}") | WriteToText(known.output)
    return p.result


if __name__ == "__main__":
    run()
