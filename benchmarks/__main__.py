"""`python benchmarks [names]`: what penstock costs, against programs written by hand.

chain           (a) five Maps and a Filter
word_count      (b) words of a file of 100 MB
windowed_sums   (c) sums by key and minute
sessions        (d) sessions
retracting      (c) and (d) again, with results that are corrected every ten seconds
spark           (e) (b) and (c) on Spark, against RDDs
memory          word count of a file of 1 GB
startup         import, and a pipeline of ten elements
text_files      (i) one worker, text files in, text files out, against loops that do the same
all_cores       (j) bounded pipelines, and a stream, with two workers or more; groups and words larger than memory
json_lines      (k) JSON lines of a declared type, counted, against the json module
columns         (l) columns of Parquet files, against loops over their rows, Polars and Spark's DataFrames
batches         (m) batched DoFns, against NumPy by hand
google_cloud    (n) BigQuery, Pub/Sub and Google Cloud Storage, against Google's clients on the same fake servers

Of streams, whose figures are in docs/streaming_performance.md:

snapshot_intervals  (a) run time by snapshot interval: ABS, figure 6
scaling             (b) one worker and two: ABS, figure 7
latency             (c) through one shuffle: MillWheel, figure 13
watermark_lag       (d) of three stages: MillWheel, figure 15
running_sum         (e) a sum of each key, again and again
snapshot_pause      (f) of a million keys
snapshot_changes    (g) of timers, side inputs and remembered outputs
async_calls         (i) of a service, 200 at once, against asyncio by hand
kafka               (h) a topic of Kafka, summed, against a loop over `consume()`; latency from topic to topic

Of micro-batches on Spark, whose figures are in docs/spark_streaming_performance.md:

spark_micro_batch   against transformWithState, foreachBatch and the batch runner; state of a million keys
spark_parquet       Parquet files summed by key and minute, against Structured Streaming
spark_jobs          bounded pipelines of many inputs and sinks, against RDDs
state_memory        a subtask with a million keys, with memory for a tenth of them
moved_shards        a worker that restores the state of a subtask, by number of keys

Commands of their own are `python benchmarks soak --minutes 60`, `python benchmarks nexmark --runner local --events
1000000`, `python benchmarks ui_overhead`, `ui_open` and `ui_parts`, of the page of a job, and `python benchmarks
instructions OTHER`, which compares with another checkout (see streaming/soak.py, nexmark/, ui/ and instructions.py).

Prints a line for each comparison.  The exit status is 1 when one is over its limit.  `--results FILE` adds them to a
file, as JSON: docs/performance.json, of which `python docs/tables.py` makes the tables in docs/.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

# By name, the modules.
BENCHMARKS = {
    "chain": "bounded.chain",
    "word_count": "bounded.word_count",
    "windowed_sums": "bounded.windowed_sums",
    "sessions": "bounded.sessions",
    "retracting": "bounded.retracting",
    "spark": "spark.batch",
    "memory": "bounded.memory",
    "startup": "startup",
    "text_files": "bounded.text_files",
    "all_cores": "bounded.all_cores",
    "json_lines": "bounded.json_lines",
    "columns": "bounded.columns",
    "batches": "bounded.batches",
    "google_cloud": "bounded.google_cloud",
    "snapshot_intervals": "streaming.snapshot_intervals",
    "scaling": "streaming.scaling",
    "latency": "streaming.latency",
    "watermark_lag": "streaming.watermark_lag",
    "running_sum": "streaming.running_sum",
    "snapshot_pause": "streaming.snapshot_pause",
    "snapshot_changes": "streaming.snapshot_changes",
    "async_calls": "streaming.async_calls",
    "kafka": "streaming.kafka",
    "spark_micro_batch": "spark.micro_batch",
    "spark_parquet": "spark.parquet_streams",
    "spark_jobs": "spark.side_by_side",
    "state_memory": "spark.state_memory",
    "moved_shards": "spark.moved_shards",
}
COMMANDS = {
    "soak": "streaming.soak",
    "nexmark": "nexmark.command",
    "instructions": "instructions",
    "ui_overhead": "ui.overhead",
    "ui_open": "ui.open_page",
    "ui_parts": "ui.parts",
}


def main(names: list[str]) -> int:
    if names and names[0] in COMMANDS:
        return int(importlib.import_module(COMMANDS[names[0]]).main(names[1:]))
    file = None
    if "--results" in names:
        at = names.index("--results")
        if at + 1 == len(names):
            print("--results: expected a file behind it", file=sys.stderr)
            return 2
        file = Path(names[at + 1])
        names = names[:at] + names[at + 2 :]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    from harness.results import add, as_data, circumstances

    passed = True
    for name in names or BENCHMARKS:
        about = circumstances()
        found = []
        for one in importlib.import_module(BENCHMARKS[name]).run():
            print(one, flush=True)
            passed &= one.passes
            found.append(one)
        if file is not None:
            add(file, name, about, as_data(found))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
