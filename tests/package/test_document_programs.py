"""Programs and commands of README.md and docs/ that need files, services or a signal: run as they are written."""

from __future__ import annotations

import http.server
import json
import pathlib
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from package.unpack_wheel import ROOT
from servers.loopback_server import free_port
from support.programs.document_code import blocks_of, commands, penstock, programs, shell, started
from support.programs.running_program import wait_until

import penstock as beam


class Prices(http.server.BaseHTTPRequestHandler):
    """A service: the price of an item is the length of its name."""

    def do_GET(self) -> None:
        """Answer in JSON."""
        item = self.path.rpartition("/")[2]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"item": item, "price": len(item)}).encode())

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[str]:
    """The address of the service."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prices) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_calls_of_a_service_are_made(service: str) -> None:
    """By an async DoFn, and by an enrichment."""
    lookup, enrichment = programs("docs/async.md", __file__)
    names: dict[str, Any] = {"beam": beam, "httpx": httpx}
    exec(lookup, names)
    url = f"{service}/items"
    with beam.Pipeline() as p:
        found = beam.collect(p | beam.Create([("a", "tea"), ("b", "milk")]) | beam.ParDo(names["Lookup"](), url))
    assert [("a", {"item": "tea", "price": 3}), ("b", {"item": "milk", "price": 4})] == sorted(found)

    with beam.Pipeline() as p:
        names["orders"] = p | beam.Create([beam.Row(item="tea")])
        exec(enrichment.replace("http://127.0.0.1:8000", service), names)
        assert [("tea", 3)] == [(row.item, row.price) for row in beam.collect(names["good"])], beam.collect(
            names["bad"]
        )


WITH_OUTPUT = """import argparse

import apache_beam as beam

parser = argparse.ArgumentParser()
parser.add_argument("--output")
given, flags = parser.parse_known_args()
with beam.Pipeline(argv=flags) as p:
    _ = p | beam.Create(["to be"]) | beam.FlatMap(str.split) | beam.io.WriteToText(given.output)
"""


def test_a_program_for_beam_runs_and_is_checked(tmp_path: pathlib.Path) -> None:
    """The page's own, one with flags, one that needs what penstock lacks, and its tests."""
    with_output, imports, check, tests = programs("docs/beam.md", __file__)
    (block,) = [block for block in blocks_of(ROOT / "docs" / "beam.md") if "CLICKS = " in block.code]
    (tmp_path / "clicks.py").write_text(imports.replace("...\n", block.code.partition("\n\n")[2]))
    assert block.output == shell("penstock run --beam clicks.py", tmp_path).stdout

    (tmp_path / "pipeline.py").write_text(WITH_OUTPUT)
    assert 0 == (ran := shell(with_output, tmp_path)).returncode, ran.stderr
    assert list(tmp_path.glob("counts.txt*"))

    (tmp_path / "pipeline.py").write_text("\n" * 13 + "from apache_beam.io.jdbc import ReadFromJdbc\n")
    command, _, output = check.removeprefix("$ ").partition("\n")
    assert (1, output) == ((ran := shell(command, tmp_path)).returncode, ran.stdout)

    (tmp_path / "test_it.py").write_text("import apache_beam\n\n\ndef test_it():\n    assert apache_beam.Pipeline()\n")
    assert 0 == (ran := shell(tests, tmp_path)).returncode, ran.stdout


PARSE = """import penstock as beam


def parsed(text):
    return int(text)


class Parse(beam.PTransform):
    def expand(self, texts):
        return texts | beam.Map(parsed)


with beam.Pipeline() as p:
    _ = p | beam.Create(["one"]) | Parse()
"""


def test_an_error_is_shown_as_the_readme_has_it(tmp_path: pathlib.Path) -> None:
    """With the user's lines, the transform and the element."""
    (*_, shown) = [code for code in programs("README.md", __file__) if code.startswith("$ ")]
    (tmp_path / "parse.py").write_text(PARSE)
    command, _, output = shown.removeprefix("$ ").partition("\n")
    assert (1, output) == ((ran := shell(command, tmp_path)).returncode, ran.stderr)


WORDS = """import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

with beam.Pipeline(options=PipelineOptions()) as p:
    counts = p | beam.Create(["to be", "to"]) | beam.FlatMap(str.split) | beam.combiners.Count.PerElement()
    _ = counts | beam.Map(print)
"""


@pytest.mark.parametrize("document", ["docs/delivery.md", "docs/howto/skew.md"])
def test_a_program_runs_with_the_flags_of(document: str, tmp_path: pathlib.Path) -> None:
    """As python runs it."""
    (command,) = programs(document, __file__)
    (tmp_path / "pipeline.py").write_text(WORDS)
    ran = shell(f"set -o pipefail; {command.replace(' | head -30', '')}", tmp_path)
    assert 0 == ran.returncode, ran.stderr
    assert {"('to', 2)", "('be', 1)"} <= set(ran.stdout.splitlines())


def test_the_first_pipeline_of_the_first_hour_runs(tmp_path: pathlib.Path) -> None:
    """And prints what is shown."""
    (command,) = programs("docs/tutorials/first_hour.md", __file__)
    (block,) = [block for block in blocks_of(ROOT / "docs" / "tutorials" / "first_hour.md") if block.output]
    (tmp_path / "clicks.py").write_text(block.code)
    assert (0, block.output) == ((ran := shell(command, tmp_path, {"env/bin/": ""})).returncode, ran.stdout)


def test_a_figure_is_drawn(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both formats."""
    (command,) = programs("docs/panes.md", __file__)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    penstock(command)
    assert (tmp_path / "figure.svg").read_bytes() == (ROOT / "docs" / "figures" / "dataflow-14.svg").read_bytes()
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


STREAMS = {
    "docs/streaming.md": ("numbers.py", "/var/lib/numbers", "9090"),
    "docs/ui.md": ("numbers.py", "/var/lib/numbers", "8081"),
    "README.md": ("stream.py", "/var/lib/stream", "9090"),
}


@pytest.mark.parametrize("document", STREAMS)
def test_the_stream_runs_until_it_is_stopped(document: str, tmp_path: pathlib.Path) -> None:
    """With a savepoint, at the first Ctrl-C."""
    file, directory, port = STREAMS[document]
    (block,) = [code for code in programs("docs/streaming.md", __file__) if "import" in code]
    (tmp_path / file).write_text(block.replace("FixedWindows(10)", "FixedWindows(1)"))
    (command,) = [
        command for code in programs(document, __file__) for command in commands(code) if "penstock run" in command
    ][:1]
    with started(command, tmp_path, {directory: tmp_path / "kept", port: free_port()}) as stream:
        wait_until(lambda: (tmp_path / "out").read_text() or stream.poll() is not None, "a window")
        stream.send_signal(signal.SIGINT)
    assert 0 == stream.returncode, (tmp_path / "err").read_text()
    assert list((tmp_path / "kept").glob("**/*")), "a savepoint"


SHOP = """from dataclasses import dataclass


@dataclass
class Visit:
    count: int
"""
NEXT_SHOP = SHOP.replace("count: int", "total: int\n    last: object")

VISITS = """import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import PenstockError
from penstock.transforms.combiners import CountCombineFn
from penstock.transforms.userstate import CombiningValueStateSpec, ReadModifyWriteStateSpec
from penstock.windowing import IntervalWindow
from shop import Visit


class Visits(beam.DoFn):
    COUNT = CombiningValueStateSpec("count", CountCombineFn())
    VISIT = ReadModifyWriteStateSpec("visit")

    def process(self, pair, count=beam.DoFn.StateParam(COUNT), visit=beam.DoFn.StateParam(VISIT)):
        count.add(1)
        visit.write(Visit(count.read()))


p = beam.Pipeline(options=PipelineOptions())
numbers = p | beam.io.GenerateSequence(0, elements_per_period=100, period=1)
windows = beam.WindowInto(beam.window.FixedWindows(60))
_ = numbers | windows | beam.Map(lambda n: (f"key {n % 3}", n)) | "Visits" >> beam.ParDo(Visits())
"""

UNTIL_A_CHECKPOINT = """result = p.run()
while True:
    try:
        result.state("Visits").get("key 1", name="count")
        break
    except PenstockError:
        time.sleep(0.05)
"""


def test_state_is_read_compared_and_migrated(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program, and on the command line."""
    codes = programs("docs/state.md", __file__)
    listing, by_the_program, diffs, migrations, migrating = codes
    (tmp_path / "shop.py").write_text(SHOP)
    reading = by_the_program.replace("result = p.run()\n", UNTIL_A_CHECKPOINT)
    (tmp_path / "visits.py").write_text(f"import time\n\n{VISITS}\n{reading}\nresult.stop_with_savepoint()\n")
    flags = "--checkpoint_dir=kept --checkpoint_interval=0.2"
    assert 0 == (ran := shell(f"python visits.py {flags}", tmp_path)).returncode, ran.stderr

    monkeypatch.chdir(tmp_path)
    assert "Visits" in penstock(listing, {"DIR": "kept"})
    assert (tmp_path / "visits.jsonl").read_text()
    assert (tmp_path / "visits.parquet").read_bytes()

    for day in ("yesterday", "today"):
        shutil.copytree(tmp_path / "kept", tmp_path / day / "job")
    *_, before, after = sorted(
        map(int, re.findall(r"^ *(\d+)", penstock("penstock checkpoints list kept"), re.MULTILINE))
    )
    assert "Visits" in penstock(diffs, {"DIR@14": f"kept@{before}", "DIR@15": f"kept@{after}"})

    (tmp_path / "stream.py").write_text(f"{VISITS}\np.run().wait_until_finish()\n")
    (tmp_path / "migrations.py").write_text(migrations)
    stop, migrate = commands(migrating)

    def is_stopped() -> bool:
        return shell(stop, tmp_path, {"DIR": "kept"}).returncode == 0 or stream.poll() is not None

    with started(f"python stream.py {flags}", tmp_path) as stream:
        wait_until(is_stopped, "a stop")
    assert 0 == stream.returncode, (tmp_path / "err").read_text()
    (tmp_path / "shop.py").write_text(NEXT_SHOP)
    assert 0 == (ran := shell(migrate, tmp_path, {"DIR": "kept"})).returncode, ran.stderr
    assert '"total"' in penstock("penstock state kept --step Visits")
