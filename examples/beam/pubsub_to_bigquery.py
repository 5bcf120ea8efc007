"""Page views by minute: messages of Pub/Sub, counted in windows, into a table of BigQuery.

A message is a JSON text such as {"page": "/tea", "user": "ann"}.  Messages that are none go to a table of their own.
It runs until it is stopped:

    penstock run --beam examples/beam/pubsub_to_bigquery.py --streaming --checkpoint_dir=kept \
        --subscription=projects/shop/subscriptions/views --table=shop:web.views --invalid=shop:web.invalid
"""

import argparse
import json
import logging

import apache_beam as beam
from apache_beam.io.gcp.bigquery import BigQueryDisposition, WriteToBigQuery
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

_logger = logging.getLogger(__name__)

VIEWS = {
    "fields": [
        {"name": "page", "type": "STRING", "mode": "REQUIRED"},
        {"name": "start", "type": "TIMESTAMP", "mode": "REQUIRED"},
        {"name": "views", "type": "INTEGER", "mode": "REQUIRED"},
    ]
}


class Parse(beam.DoFn):
    """Pages of messages; what is no view is an output of its own."""

    def process(self, message):
        try:
            yield json.loads(message)["page"]
        except (ValueError, KeyError, TypeError):
            yield beam.pvalue.TaggedOutput("invalid", {"message": message.decode("utf-8", "replace")})


def as_row(page_and_views, window=beam.DoFn.WindowParam):
    page, views = page_and_views
    return {"page": page, "start": window.start.to_utc_datetime().isoformat(), "views": views}


def run(argv=None):
    parser = argparse.ArgumentParser(description="Count the views of pages.")
    parser.add_argument("--subscription", required=True, help="projects/PROJECT/subscriptions/NAME")
    parser.add_argument("--table", required=True, help="PROJECT:DATASET.TABLE")
    parser.add_argument("--invalid", required=True, help="The table of messages that are no views.")
    parser.add_argument("--seconds", type=int, default=60, help="The size of a window.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        parsed = (
            p
            | "Read" >> beam.io.ReadFromPubSub(subscription=args.subscription)
            | "Parse" >> beam.ParDo(Parse()).with_outputs("invalid", main="pages")
        )
        written = (
            parsed.pages
            | "Window" >> beam.WindowInto(FixedWindows(args.seconds))
            | "Count" >> beam.combiners.Count.PerElement()
            | "Rows" >> beam.Map(as_row)
            | "Views"
            >> WriteToBigQuery(
                args.table,
                schema=VIEWS,
                create_disposition=BigQueryDisposition.CREATE_IF_NEEDED,
                write_disposition=BigQueryDisposition.WRITE_APPEND,
            )
        )
        _ = written.failed_rows_with_errors | "Log" >> beam.Map(lambda failed: _logger.error("not written: %s", failed))
        _ = parsed.invalid | "Invalid" >> WriteToBigQuery(args.invalid, schema="message:STRING")


if __name__ == "__main__":
    run()
