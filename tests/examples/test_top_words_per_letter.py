"""The most frequent words of each letter, against sorted lists."""

from __future__ import annotations

import glob
import keyword
import pathlib
import re
from collections import Counter, defaultdict

from penstock.examples import top_words_per_letter


def expected_lines(paths: list[str], unwanted: set[str], n: int) -> list[str]:
    counts: Counter[str] = Counter()
    for path in paths:
        counts.update(re.findall("[a-z]+", pathlib.Path(path).read_text(encoding="utf-8").lower()))
    for word in unwanted:
        counts.pop(word, None)
    by_letter = defaultdict(list)
    for word, times in counts.items():
        by_letter[word[0]].append((times, word))
    total = counts.total()
    return sorted(
        f"{letter}: " + ", ".join(f"{word} {times / total:.3%}" for times, word in sorted(words, reverse=True)[:n])
        for letter, words in by_letter.items()
    )


def lines(pattern: str) -> list[str]:
    return sorted(line for path in glob.glob(pattern) for line in pathlib.Path(path).read_text().splitlines())


def test_the_top_words_of_the_standard_library(runner_name: str, tmp_path: pathlib.Path) -> None:
    """Without Python's own words, and with shares in the number of all others."""
    written = top_words_per_letter.run([f"--output={tmp_path}/words", f"--runner={runner_name}"])

    paths = glob.glob(top_words_per_letter.STANDARD_LIBRARY)
    expected = expected_lines(paths, {word.lower() for word in keyword.kwlist}, 3)
    assert expected == lines(written)
    assert len(expected) == 26


def test_the_words_to_leave_out_and_how_many_to_take_can_be_given(tmp_path: pathlib.Path) -> None:
    """Of the three other words, "by" and "bi" are as frequent; the later in the alphabet comes first."""
    (tmp_path / "in.txt").write_text("Be by bi a\n")

    written = top_words_per_letter.run(
        [f"--input={tmp_path}/in.txt", f"--output={tmp_path}/words", "--words=1", "--leave_out", "be"]
    )

    assert ["a: a 33.333%", "b: by 33.333%"] == lines(written)
