"""The word counts, against a Counter's."""

from __future__ import annotations

import glob
import pathlib
import re
from collections import Counter

from penstock.examples import wordcount


def counted(pattern: str) -> dict[str, int]:
    """Return the counts in the files of a result; each word has to be there once."""
    lines = [line for path in glob.glob(pattern) for line in pathlib.Path(path).read_text().splitlines()]
    pairs = [line.rsplit(": ", 1) for line in lines]
    assert len(pairs) == len({word for word, _ in pairs})
    return {word: int(n) for word, n in pairs}


def test_the_words_of_the_standard_library_are_counted_as_a_counter_counts_them(
    runner_name: str, tmp_path: pathlib.Path
) -> None:
    """The default input."""
    expected: Counter[str] = Counter()
    for path in glob.glob(wordcount.STANDARD_LIBRARY):
        expected.update(re.findall(r"\w+(?:'\w+)*", pathlib.Path(path).read_text(encoding="utf-8")))

    written = wordcount.run([f"--output={tmp_path}/counts", f"--runner={runner_name}"])

    assert expected == counted(written)
    assert expected["self"] > 1000


def test_the_words_of_given_files_are_counted(runner_name: str, tmp_path: pathlib.Path) -> None:
    """`--input` is a pattern."""
    (tmp_path / "a.txt").write_text("to be or not to be\n\nthat's it\n")
    (tmp_path / "b.txt").write_text("it's to be, 'to be'")

    written = wordcount.run(
        [f"--input={tmp_path}/?.txt", f"--output={tmp_path}/counts", f"--runner={runner_name}"],
    )

    assert {"to": 4, "be": 4, "or": 1, "not": 1, "that's": 1, "it": 1, "it's": 1} == counted(written)
