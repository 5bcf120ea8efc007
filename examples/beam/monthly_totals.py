"""Sales by month and item: from a table of BigQuery to another one.

A query reads what was sold, and each month's best-selling item is written, too. The tables of results are replaced:

    penstock run --beam examples/beam/monthly_totals.py --project=shop \
        --orders=shop:sales.orders --totals=shop:sales.totals --best=shop:sales.best
"""

import argparse

import apache_beam as beam
from apache_beam.io.gcp.bigquery import BigQueryDisposition, ReadFromBigQuery, WriteToBigQuery
from apache_beam.options.pipeline_options import PipelineOptions

QUERY = "SELECT item, DATE_TRUNC(day, MONTH) AS month, cups FROM `{}` WHERE cups > 0"


def key_of(row):
    return (str(row["month"])[:7], row["item"]), row["cups"]


def as_row(total):
    (month, item), cups = total
    return {"month": month, "item": item, "cups": cups}


def run(argv=None):
    parser = argparse.ArgumentParser(description="Sum the sales of months.")
    parser.add_argument("--orders", required=True, help="PROJECT:DATASET.TABLE of the orders: item, day, cups")
    parser.add_argument("--totals", required=True, help="The table of totals by month and item.")
    parser.add_argument("--best", required=True, help="The table of the best item of each month.")
    args, pipeline_args = parser.parse_known_args(argv)

    def write(label, table):
        return label >> WriteToBigQuery(
            table,
            schema="month:STRING,item:STRING,cups:INTEGER",
            create_disposition=BigQueryDisposition.CREATE_IF_NEEDED,
            write_disposition=BigQueryDisposition.WRITE_TRUNCATE,
        )

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        query = QUERY.format(args.orders.replace(":", "."))
        totals = (
            p
            | "Orders" >> ReadFromBigQuery(query=query, use_standard_sql=True)
            | "Keys" >> beam.Map(key_of)
            | "Sum" >> beam.CombinePerKey(sum)
            | "Rows" >> beam.Map(as_row)
        )
        _ = totals | write("Totals", args.totals)
        _ = (
            totals
            | "By month" >> beam.WithKeys(lambda row: row["month"])
            | "Best" >> beam.combiners.Top.LargestPerKey(1, key=lambda row: row["cups"])
            | "Each" >> beam.FlatMap(lambda month_and_best: month_and_best[1])
            | write("Save best", args.best)
        )


if __name__ == "__main__":
    run()
