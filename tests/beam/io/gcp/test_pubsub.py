"""Reading several subscriptions of Pub/Sub under Beam's name."""

from __future__ import annotations

from typing import Any

from servers.pubsub_server import PubsubServer
from support.programs.running_program import wait_until

import penstock as beam
from penstock.beam.io.gcp.pubsub import MultipleReadFromPubSub, PubSubSourceDescriptor
from penstock.options.pipeline_options import PipelineOptions


def test_several_are_read_at_once(pubsub: PubsubServer, name: str, tmp_path: Any) -> None:
    other = pubsub.make(f"{name}-other")
    pubsub.publish(name, [b"1"])
    pubsub.publish(other, [b"2"])
    read = MultipleReadFromPubSub([PubSubSourceDescriptor(pubsub.subscription(each)) for each in (name, other)])
    p = beam.Pipeline(options=PipelineOptions(checkpoint_dir=str(tmp_path / "kept"), checkpoint_interval=0.1))
    _ = p | read | beam.Map(bytes.decode) | beam.io.WriteToText(tmp_path / "out", ".txt")
    result = p.run()
    wait_until(lambda: {"1", "2"} == lines_of(tmp_path), "the files have both messages")
    result.cancel()


def lines_of(directory: Any) -> set[str]:
    return {line for file in directory.glob("out*") for line in file.read_text().split()}
