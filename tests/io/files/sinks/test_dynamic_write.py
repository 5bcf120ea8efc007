"""Where `WriteToFiles` puts its files: below its directory, and visible, whatever the destinations are."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import hypothesis
import pytest
from hypothesis import strategies as st

import penstock as beam
from penstock.io import fileio
from penstock.io.files.sinks.commit_plan import Renaming, write_plan
from penstock.io.files.sinks.sharding import path_inside, quoted_name
from penstock.io.files.text import TextFormat
from penstock.io.files.write import FileSink
from penstock.sdk.errors import SinkError
from penstock.sdk.graph import ParDo
from penstock.sdk.sink import SinkContext
from penstock.testing import ScriptedSource, TestPipeline

DESTINATIONS = [
    "../evil",
    "a/../../../evil",
    "/tmp/evil",
    ".hidden",
    ".",
    "..",
    "",
    "a/b",
    "a",
    "%2E%2E%2Fevil",
    "nul\0",
    "two\nlines",
    "file::/tmp/evil",
    "\udc80",
    "plain name, with ünicode",
]
TEXTS = st.text(alphabet=st.sampled_from("ab./%:2EF\0\n\ud800é") | st.characters())


def text_sink(directory: str) -> FileSink:
    """A sink of lines."""
    return FileSink(f"{directory}/out", TextFormat())


def files_sink(directory: str) -> FileSink:
    """The sink of `WriteToFiles`."""
    return fileio.WriteToFiles(directory).sink


def below(directory: pathlib.Path) -> list[str]:
    """All files and links below a directory, by path."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


@hypothesis.given(TEXTS)
def test_a_quoted_name_is_one_visible_name_and_gives_the_text_back(text: str) -> None:
    """Slashes, dots, control characters and percent signs included."""
    name = quoted_name(text)
    assert text == unquote(name, errors="surrogatepass")
    assert not name.startswith(".")
    assert {"/", "\0"}.isdisjoint(name)


@hypothesis.given(TEXTS)
def test_a_path_inside_never_leads_out_and_gives_the_path_back(text: str) -> None:
    """A path that is plain stays as it is."""
    path = path_inside(text)
    parts = path.split("/")
    assert path == text or text == unquote(path, errors="surrogatepass")
    assert path == path_inside(path)
    assert path == "" or [] == [part for part in parts if not part or part.startswith(".") or "\0" in part]


def test_files_stay_in_their_directory_whatever_the_destinations_are(
    make_pipeline: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    """All are found by the pattern that readers use, one for each destination, whose name can be had back."""
    directory = tmp_path / "some" / "where" / "out"
    with make_pipeline() as p:
        _ = (
            p
            | beam.Create(list(enumerate(DESTINATIONS)))
            | beam.Reshuffle()
            | fileio.WriteToFiles(
                directory, destination=lambda element: element[1], sink=lambda _: fileio.TextSink(Number()), shards=1
            )
        )
    assert below(directory) == [path.removeprefix("some/where/out/") for path in below(tmp_path)]
    with make_pipeline() as p:
        found = {
            unquote(path.name.removesuffix("-00000-of-00001"), errors="surrogatepass"): path.read_text()
            for path in directory.glob("[!.]*")
        }
        lines = p | beam.io.ReadFromText(directory / "*")
        beam.testing.util.assert_that(lines, beam.testing.util.equal_to([str(i) for i in range(len(DESTINATIONS))]))
    assert {destination: f"{i}\n" for i, destination in enumerate(DESTINATIONS)} == found


class Number(beam.coders.Coder):
    """Writes an element's number only."""

    def encode(self, value: tuple[int, str]) -> bytes:
        """As text."""
        return str(value[0]).encode()


@pytest.mark.parametrize("unbounded", [False, True])
def test_a_naming_of_the_users_own_may_have_subdirectories_and_no_other_directories(
    tmp_path: pathlib.Path, unbounded: bool
) -> None:
    """In a stream the transaction's name, which comes first, makes '..' no harmless name either."""
    names = ["../evil", "a/../../../../evil", "/etc/evil", "2026/01/.hidden", "2026/01/50%.txt", "./x", "y/", "z"]
    directory = tmp_path / "some" / "where" / "out"
    values = [[beam.window.TimestampedValue(name, 1) for name in names]]
    with TestPipeline() as p:
        given = p | (beam.io.Read(ScriptedSource(values)) if unbounded else beam.Create(names))
        _ = given | fileio.WriteToFiles(directory, lambda *args: args[-1], destination=lambda name: name)
    found = [path.removeprefix("some/where/out/") for path in below(tmp_path)]
    assert below(directory) == found
    if unbounded:
        # NUMBER-SERIES-NAME
        found = sorted(path.split("-", 2)[2] for path in found)
    assert [
        "%2E./evil",
        "%2E/x",
        "%2Fetc/evil",
        "2026/01/%2Ehidden",
        "2026/01/50%.txt",
        "a/%2E./%2E./%2E./%2E./evil",
        "y%2F",
        "z",
    ] == found


def test_a_subdirectory_that_is_a_link_to_elsewhere_is_refused(tmp_path: pathlib.Path) -> None:
    """By its name, before anything is made there; a link within the directory is none of that."""
    directory, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (directory / "real").mkdir(parents=True)
    (directory / "link").symlink_to(elsewhere)
    (directory / "inside").symlink_to(directory / "real")
    with pytest.raises(SinkError, match=r"gives 'link/x', but '.*/out/link' leads out of '.*/out' by a symbolic link"):
        write_one(directory, "link/x")
    write_one(directory, "inside/x")
    assert [] == list(elsewhere.iterdir())
    assert ["x"] == os.listdir(directory / "real")


def test_a_file_that_is_a_link_is_replaced_and_what_it_points_to_is_left_alone(tmp_path: pathlib.Path) -> None:
    """As with every rename."""
    directory, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    directory.mkdir()
    elsewhere.write_text("kept")
    (directory / "x").symlink_to(elsewhere)
    write_one(directory, "x")
    assert ("kept", "x\n", False) == (
        elsewhere.read_text(),
        (directory / "x").read_text(),
        (directory / "x").is_symlink(),
    )


def test_a_name_that_is_too_long_is_refused_before_it_is_staged(tmp_path: pathlib.Path) -> None:
    """With the name and the destination that it was made for."""
    directory = tmp_path / "out"
    for name in ("x" * 256, "a/" + "ü" * 128):
        with pytest.raises(SinkError, match=rf"can't have a file '{name}', which .* for '{name}': File name too long"):
            write_one(directory, name)
    write_one(directory, "ü" * 127)
    assert ["ü" * 127] == os.listdir(directory)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_naming_that_gives_no_name_is_an_error(tmp_path: pathlib.Path, name: Any) -> None:
    """The error names the destination."""
    with pytest.raises(SinkError, match=rf"WriteToFiles: file_naming gives {name!r} for the destination '?{name}'?"):
        write_one(tmp_path, name)


@pytest.mark.parametrize(
    ("staged", "final"),
    [("../../../secret", "out-00000-of-00001"), ("stolen", "../stolen"), ("stolen", "out/../../stolen"), ("..", "out")],
)
@pytest.mark.parametrize("sink", [text_sink, files_sink], ids=["text", "files"])
def test_a_plan_that_another_user_has_put_there_is_not_carried_out(
    tmp_path: pathlib.Path, staged: str, final: str, sink: Callable[[str], FileSink]
) -> None:
    """It could take a file from anywhere, and put one anywhere, as the user that runs the pipeline."""
    directory = tmp_path / "some" / "out"
    made = sink(str(directory))
    context = SinkContext("Write", "7")
    made.prepare(context)
    staging = pathlib.Path(made.staging_directory(context))
    (staging / "stolen").write_text("x")
    (tmp_path / "secret").write_text("x")
    write_plan(made.file_system, str(staging), [Renaming(staged, f"{directory}/{final}", 1)])
    before = below(tmp_path)
    with pytest.raises(SinkError, match="isn't of this sink: it renames"):
        made.commit(context, [])
    assert before == below(tmp_path)


def test_names_that_no_text_file_can_have_are_refused_before_anything_is_written(tmp_path: pathlib.Path) -> None:
    """A NUL when the pipeline is built, a name that is too long when the run begins."""
    with pytest.raises(ValueError, match=r"WriteToText: no file's name can have a NUL in it, as '.txt\\x00' has"):
        beam.io.WriteToText(tmp_path / "out", ".txt\0")
    with pytest.raises(SinkError, match=r"can't be written to: File name too long"), TestPipeline() as p:
        _ = p | beam.Create(["a"]) | beam.io.WriteToText(tmp_path / "out", "x" * 255)
    assert [] == os.listdir(tmp_path)


def write_one(directory: pathlib.Path, name: Any) -> None:
    """Write one element to a destination, under its name."""
    with TestPipeline() as p:
        _ = p | beam.Create([name]) | fileio.WriteToFiles(directory, lambda *args: args[-1], destination=lambda x: x)


@pytest.mark.parametrize("options", [{}, {"shards": 2}], ids=["files", "shards"])
def test_the_label_of_the_sink_stays(tmp_path: pathlib.Path, options: dict[str, Any]) -> None:
    """Checkpoints of former versions have state under it."""
    p = TestPipeline()
    _ = p | beam.Create(["a"]) | "Save" >> fileio.WriteToFiles(str(tmp_path), **options)

    labels = [t.label for t in p.graph().transforms if isinstance(t.primitive, ParDo) and t.primitive.sink is not None]
    assert ["Save/Write(DestinationSink)"] == labels
