"""The example from Pub/Sub to BigQuery, between two servers."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

from servers.bigquery_server import DATASET, PROJECT, BigQueryServer
from servers.pubsub_server import PubsubServer
from support.programs.running_program import wait_until

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "beam" / "pubsub_to_bigquery.py"


def test_views_are_counted_into_a_table(
    pubsub: PubsubServer, name: str, bigquery: BigQueryServer, tmp_path: pathlib.Path
) -> None:
    """And messages that are no views are in a table of their own."""
    tables = {"table": f"{PROJECT}:{DATASET}.views", "invalid": f"{PROJECT}:{DATASET}.invalid"}
    flags = {"subscription": pubsub.subscription(name), "seconds": 1, "checkpoint_dir": "kept", **tables}
    program = subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", "--beam", str(EXAMPLE), "--streaming"]
        + [f"--{flag}={value}" for flag, value in flags.items()]
        + ["--checkpoint_interval=0.2"],
        cwd=tmp_path,
        env={**os.environ, **pubsub.environment, **bigquery.environment},
    )
    try:
        pages = ["/tea", "/milk", "/tea"]
        pubsub.publish(name, [json.dumps({"page": page}).encode() for page in pages] + [b"[]", b"no"])
        # The watermark of a topic without messages is ten seconds behind the clock.
        wait_until(lambda: 3 == sum(row["views"] for row in bigquery.rows("views")), "all views are counted")
        wait_until(lambda: 2 == len(bigquery.rows("invalid")), "the invalid messages are written")
    finally:
        program.send_signal(signal.SIGTERM)
        ended = program.wait(60)
    assert 0 == ended
    found = {page: sum(row["views"] for row in bigquery.rows("views") if row["page"] == page) for page in pages}
    assert {"/tea": 2, "/milk": 1} == found
    assert ["[]", "no"] == sorted(row["message"] for row in bigquery.rows("invalid"))
