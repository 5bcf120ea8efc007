"""The output of `make demo`."""

from __future__ import annotations

import sys

import pytest

from penstock.examples import demo


@pytest.mark.parametrize("has_rich", [True, False])
def test_the_demo_shows_words_months_and_sessions_and_what_to_try_next(
    has_rich: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rich, and without."""
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich", None)

    demo.main()

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["risingwave", "2022-03", "528"] in lines
    assert ["b980c4b6", "2017-08-21", "19:56", "13.7", "h", "29"] in lines
    assert ["self"] == [line[0] for line in lines if line[:1] == ["self"]]
    assert ["What", "to", "try", "next"] in lines
