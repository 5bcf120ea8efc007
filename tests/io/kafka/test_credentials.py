"""Credentials: wrong ones are refused at once, and right ones show nowhere."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
import traceback
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from kafka.broker import PASSWORD, KafkaBroker
from kafka.registry import PASSWORD as PASSWORD_OF_REGISTRY
from kafka.registry import USER, Registry
from kafka.topics import Topic
from support.programs.running_program import wait_until
from support.runners.running_pages import document

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.drawing.drawing import mime_bundle
from penstock.sdk.errors import SinkError, SourceError

WRONG = "guessed-at-the-well"

# What the page of a job is made of.
DOCUMENTS = ("run", "graph", "status", "checkpoints", "panes", "errors", "logs", "profiles")


@pytest.mark.parametrize("writes", [False, True], ids=["read", "write"])
def test_wrong_credentials_are_refused_before_the_run(topic: Topic, broker: KafkaBroker, writes: bool) -> None:
    """Without waiting, as for a broker that doesn't answer."""
    config = broker.of_ann(WRONG)
    p = beam.Pipeline(options=PipelineOptions(max_restarts=0))
    if writes:
        _ = p | beam.Create([(b"a", b"b")]) | beam.io.WriteToKafka(config, topic.name)
    else:
        _ = p | beam.io.ReadFromKafka(config, topic.name)
    began = time.monotonic()
    with pytest.raises((SourceError, SinkError), match="are the credentials .* right") as raised:
        p.run().wait_until_finish()
    assert time.monotonic() - began < 15
    assert WRONG not in "".join(traceback.format_exception(raised.value))


def test_a_password_is_in_no_checkpoint_no_log_no_metric_and_no_page(
    topic: Topic,
    other_topic: Topic,
    broker: KafkaBroker,
    registry: Registry,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Of a stream from topic to topic by a user who logs in, also to the registry; nor in what it shows of itself."""
    caplog.set_level(logging.DEBUG)
    topic.write(range(10))
    kept = tmp_path / "kept"
    flags: dict[str, Any] = {"checkpoint_dir": str(kept), "checkpoint_interval": 0.1, "metrics_port": 0, "ui_port": 0}
    p = beam.Pipeline(options=PipelineOptions(parallelism=2, **flags))
    with registry.behind_a_login() as server:
        schemas = beam.io.SchemaRegistry({"url": server.url, "basic.auth.user.info": f"{USER}:{PASSWORD_OF_REGISTRY}"})
        read = beam.io.ReadFromKafka(broker.of_ann() | {"auto.offset.reset": "earliest"}, topic.name)
        write = beam.io.WriteToKafka(broker.of_ann(), other_topic.name, value_serializer=schemas.avro('"bytes"'))
        _ = p | read | beam.Reshuffle() | write
        shown = [repr(p), str(p.graph()), repr(schemas), *mime_bundle(p.graph()).values()]
        shown += [
            f"{one!r} {one} {vars(one)}"
            for one in (read, write, read.display_data(), write.sink, write.sink.writing, schemas)
            if hasattr(one, "__dict__")
        ]
        result = p.run()
        try:
            wait_until(lambda: len(other_topic.found()) == 10, "the records were written")
            with urllib.request.urlopen(result.metrics_url, timeout=30) as answer:
                shown += [answer.read().decode(), repr(result), str(result.metrics().query())]
            wait_until(lambda: "WriteToKafka" in str(document(result, "graph")), "the page shows the graph")
            shown += [str(document(result, name)) for name in DOCUMENTS]
        finally:
            result.cancel()
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert files
    listing = "".join(
        subprocess.run(
            [sys.executable, "-m", "penstock", "checkpoints", command, str(kept)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for command in ("list", "show")
    )
    assert listing
    text = "".join([*map(str, shown), listing, caplog.text, *(f"{path}{path.read_bytes()!r}" for path in files)])
    assert [] == [password for password in (PASSWORD, PASSWORD_OF_REGISTRY) if password in text]
