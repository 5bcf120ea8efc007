"""Examples, each a program to be run and a file to be read.

wordcount.py              the shape of every pipeline: read, transform, group, write
commits.py                windows in event time: calendar months, and sessions
coauthors.py              a join by CoGroupByKey, month by month
top_words_per_letter.py   side inputs, and a combiner from the library
session_lengths.py        results that are corrected: late commits, retractions, a table in SQLite
maintained_view.py        a table of PostgreSQL that follows two others, change by change
shop/                     an application: PostgreSQL, Kafka and a web service, into Iceberg and a dashboard
dask_runner.py            a runner of bounded pipelines on Dask, by the interface for runners
demo.py                   what `make demo` runs
json_documents.py         a sink of one's own, which passes the conformance suite
beam/                     the classic examples of Beam: they import apache_beam, and run under Beam, too
paper_figures.py          the running example of the Dataflow paper

    python -m penstock.examples.wordcount --output=/tmp/counts
    python -m penstock.examples.wordcount --output=/tmp/counts --runner=spark-batch
    penstock run --beam examples/beam/wordcount.py --output=/tmp/counts

`commits`, `coauthors` and `session_lengths` read data/commits.csv.gz: the commits of nineteen open-source
projects, with the time at which each was made (`event_time`, in seconds) and at which
it arrived (`arrival_time`), the repository, its author under a pseudonym, and how many parents it has.
"""
