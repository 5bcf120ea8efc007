"""Credentials: wrong ones are refused at once, and right ones show nowhere."""

from __future__ import annotations

import logging
import time
import traceback
from pathlib import Path

import pytest
from servers.nats_server import PASSWORD, Stream
from servers.shown_secrets import all_that_is_shown
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io import ReadFromNats, WriteToNats
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import SinkError, SourceError

WRONG = "guessed-at-the-well"


@pytest.mark.parametrize("writes", [False, True], ids=["read", "write"])
@pytest.mark.parametrize("in_url", [False, True], ids=["arguments", "url"])
def test_wrong_credentials_are_refused_before_the_run(stream: Stream, writes: bool, in_url: bool) -> None:
    """Without waiting, as for a server that doesn't answer."""
    url = f"nats://127.0.0.1:{stream.server.port}"
    options = {"user": "ann", "password": WRONG}
    if in_url:
        url, options = stream.server.url_of_ann(WRONG), {}
    p = beam.Pipeline("local", options=PipelineOptions([], max_restarts=0))
    if writes:
        _ = p | beam.Create([b"b"]) | WriteToNats(url, f"{stream.name}.n", **options)
    else:
        _ = p | ReadFromNats(url, stream.name, **options)
    began = time.monotonic()
    with pytest.raises((SourceError, SinkError), match="; are the credentials .* right") as raised:
        p.run().wait_until_finish()
    assert time.monotonic() - began < 15
    assert WRONG not in "".join(traceback.format_exception(raised.value))


def test_a_password_shows_nowhere(
    stream: Stream, other_stream: Stream, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Of a stream from one to another: in no checkpoint, log, metric or drawing."""
    caplog.set_level(logging.DEBUG)
    stream.write(range(10))
    flags = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.1, "metrics_port": 0}
    p = beam.Pipeline("local", options=PipelineOptions([], parallelism=2, **flags))
    read = ReadFromNats(f"nats://127.0.0.1:{stream.server.port}", stream.name, user="ann", password=PASSWORD)
    write = WriteToNats(stream.url, f"{other_stream.name}.n", data=lambda message: message.data)
    _ = p | read | beam.Reshuffle() | write
    shown = [repr(one) + str(one.display_data()) for one in (read, write)]
    shown += [repr(write.sink.writing), repr(read._reading), str(vars(write.sink))]
    result = p.run()
    try:
        wait_until(lambda: len(other_stream.values()) == 10, "the messages were copied")
        text = all_that_is_shown(p, result, tmp_path / "kept")
    finally:
        result.cancel()
    assert PASSWORD not in "".join([*shown, text, caplog.text])
