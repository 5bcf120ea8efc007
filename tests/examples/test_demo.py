"""What `make demo` shows."""

from __future__ import annotations

import pytest

from penstock.examples import demo


@pytest.mark.parametrize("has_rich", [True, False])
def test_the_demo_shows_words_months_and_sessions_and_what_to_try_next(
    has_rich: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rich, and without."""
    if not has_rich:
        monkeypatch.setitem(__import__("sys").modules, "rich", None)

    demo.main()

    shown = capsys.readouterr().out
    assert "The most frequent of" in shown
    assert ["self"] == [line.split()[0] for line in shown.splitlines() if line.startswith("self ")]
    assert "risingwave    2022-03       528" in shown.replace(
        "risingwave   2022-03      528", "risingwave    2022-03       528"
    )
    assert "The longest of 50,203 work sessions" in shown
    assert "penstock run" in shown
