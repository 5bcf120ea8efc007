"""Value providers, as in Beam's templates."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import OptionsError
from penstock.sdk.options import PipelineOptions
from penstock.sdk.options.value_provider import (
    NestedValueProvider,
    RuntimeValueProvider,
    RuntimeValueProviderError,
    StaticValueProvider,
    check_accessible,
)
from penstock.testing import assert_that, equal_to


class TemplateOptions(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_value_provider_argument("--template_words", default="in.txt")
        parser.add_value_provider_argument("--template_factor", type=int, default=2)
        parser.add_value_provider_argument("--template_mode", choices=["fast", "slow"], default="slow")
        parser.add_value_provider_argument("--template_suffix")


@pytest.fixture(autouse=True)
def _before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RuntimeValueProvider, "runtime_options", None)


class Multiply(beam.DoFn):
    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def process(self, element: int) -> Any:
        yield element * self.factor.get()


def test_a_positional_argument_may_be_missing() -> None:
    """Its default isn't converted."""

    class Positional(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser: Any) -> None:
            parser.add_value_provider_argument("template_size", type=float, default=1.5)

    given, missing = (PipelineOptions(flags).view_as(Positional) for flags in (["2"], []))

    assert (2.0, 1.5) == (given.template_size.get(), missing.template_size.value_for_run())


def test_the_value_of_a_flag_is_known_at_once_and_a_default_during_the_run() -> None:
    """The default raises while the pipeline is being built."""
    options = PipelineOptions(["--template_factor=3", "--template_mode=fast"]).view_as(TemplateOptions)

    assert (3, True) == (options.template_factor.get(), options.template_factor.is_accessible())
    assert options.template_mode.get() == "fast"
    assert not options.template_words.is_accessible()
    with pytest.raises(RuntimeValueProviderError, match=r"option: template_words, .*get\(\) not called from a runtime"):
        options.template_words.get()
    with pytest.raises(OptionsError, match="expected one of 'fast', 'slow'"):
        PipelineOptions(["--template_mode=odd"]).view_as(TemplateOptions)


@pytest.mark.parametrize(("flags", "expected"), [([], [2, 4]), (["--template_factor=5"], [5, 10])])
def test_a_dofn_gets_the_value(flags: list[str], expected: list[int]) -> None:
    """Whether it was given or not."""
    options = PipelineOptions(flags)
    with beam.Pipeline(options=options) as p:
        factor = options.view_as(TemplateOptions).template_factor
        assert_that(p | beam.Create([1, 2]) | beam.ParDo(Multiply(factor)), equal_to(expected))


def test_a_worker_gets_the_value_with_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an option that the program has set after the provider was made, too."""
    options = PipelineOptions([]).view_as(TemplateOptions)
    factor = options.template_factor
    options.template_factor = StaticValueProvider(int, "7")
    beam.Pipeline(options=options).run()
    pickled = pickle.dumps(factor)
    monkeypatch.setattr(RuntimeValueProvider, "runtime_options", None)

    assert pickle.loads(pickled).get() == 7


def test_file_transforms_take_providers_of_paths_and_suffixes(tmp_path: pathlib.Path) -> None:
    """Of each kind."""
    (tmp_path / "in.txt").write_text("a\nb\n")
    default = RuntimeValueProvider("template_words", str, "in.txt")
    words = NestedValueProvider(default, lambda name: str(tmp_path / name))
    out, suffix = StaticValueProvider(str, tmp_path / "out"), StaticValueProvider(str, ".tsv")
    directory = StaticValueProvider(str, tmp_path / "files")
    with beam.Pipeline() as p:
        read = p | beam.io.ReadFromText(words)
        _ = read | beam.io.WriteToText(out, file_name_suffix=suffix)
        _ = read | beam.io.fileio.WriteToFiles(directory, destination=StaticValueProvider(str, "all"))
        paths = p | beam.io.fileio.MatchFiles(words) | beam.Map(lambda file: file.path)
        assert_that(paths, equal_to([str(tmp_path / "in.txt")]))

    assert (tmp_path / "out-00000-of-00001.tsv").read_text() == "a\nb\n"
    assert [path.read_text() for path in (tmp_path / "files").iterdir()] == ["a\nb\n"]


def test_a_path_that_was_not_given_is_an_error_that_names_the_option() -> None:
    """It has no default."""
    provider = PipelineOptions([]).view_as(TemplateOptions).template_suffix
    with pytest.raises(OptionsError, match=r"option: template_suffix, .*: it has no value; give the option"):
        beam.io.ReadFromText(provider)


def test_providers_compare_and_are_shown_as_in_beam() -> None:
    """A static one is equal to its value."""
    static = StaticValueProvider(int, "3")
    nested = NestedValueProvider(static, str)

    assert (static, static) == (3, StaticValueProvider(int, 3))
    assert ("3", "3") == (str(static), nested.get())
    assert str(RuntimeValueProvider("x", int, 1)) == "RuntimeValueProvider(option: x, type: int, default_value: 1)"
    assert str(nested) == "NestedValueProvider(value: 3, translator: str)"


def test_a_method_that_needs_accessible_values_refuses_others() -> None:
    """`check_accessible` names the provider."""

    class Source:
        def __init__(self, pattern: Any) -> None:
            self.pattern = pattern

        @check_accessible(["pattern"])
        def size(self) -> int:
            return len(self.pattern.get())

    assert Source(StaticValueProvider(str, "abc")).size() == 3
    with pytest.raises(RuntimeValueProviderError, match="not accessible"):
        Source(RuntimeValueProvider("x", str, "abc")).size()
