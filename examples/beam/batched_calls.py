"""Batched calls to a service: many elements go with one request, over a connection that a worker keeps.

The service is a small HTTP server on this machine, which the program starts.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import os
import re
import threading

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from samples import DATA, WriteOrPrint


class CountLetters(beam.DoFn):
    """Ask the service for the number of letters of each word of a batch."""

    def __init__(self, address):
        self.address = address
        self.words = Metrics.distribution(self.__class__, "words_of_a_request")

    def setup(self):
        self.connection = http.client.HTTPConnection(*self.address, timeout=10)

    def process(self, words):
        self.words.update(len(words))
        self.connection.request("POST", "/", json.dumps(words))
        with self.connection.getresponse() as response:
            yield from zip(words, json.load(response))

    def teardown(self):
        self.connection.close()


class LetterService(http.server.BaseHTTPRequestHandler):
    """Answers a list of words with a list of their lengths."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        words = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps([len(word) for word in words]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Log nothing."""


@contextlib.contextmanager
def running_service():
    """Run the service within the block, which gets its host and port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), LetterService) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address
        server.shutdown()


def run(argv=None):
    parser = argparse.ArgumentParser(description="Count words by their number of letters.")
    parser.add_argument("--input", default=os.path.join(DATA, "sonnets", "*.txt"), help="Text files, as a pattern.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    parser.add_argument("--batch_size", type=int, default=50, help="The most words of one request.")
    args, pipeline_args = parser.parse_known_args(argv)

    with running_service() as address, beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | "Read" >> beam.io.ReadFromText(args.input)
            | "Words" >> beam.FlatMap(lambda line: re.findall(r"[a-z]+", line.lower()))
            | "Distinct" >> beam.Distinct()
            | "Batch" >> beam.BatchElements(min_batch_size=args.batch_size, max_batch_size=args.batch_size)
            | "Call" >> beam.ParDo(CountLetters(address))
            | "Lengths" >> beam.Values()
            | "Count" >> beam.combiners.Count.PerElement()
            | "Format" >> beam.MapTuple(lambda letters, words: f"{letters:2} letters: {words} words")
            | "Write" >> WriteOrPrint(args.output)
        )
    (words,) = p.result.metrics().query(MetricsFilter().with_name("words_of_a_request"))["distributions"]
    print(f"{words.committed.sum} words, in fewer requests: {words.committed.count < words.committed.sum}")


if __name__ == "__main__":
    run()
