"""Options: flags, keywords and views."""

import copy
import gc
import os
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.sdk.errors import OptionsError
from penstock.sdk.options import (
    DebugOptions,
    PipelineOptions,
    ProfilingOptions,
    ProgressOptions,
    SetupOptions,
    SparkOptions,
    StandardOptions,
    StreamingOptions,
    TypeOptions,
    describe_options,
    get_pipeline_options,
    pipeline_options,
    scoped_pipeline_options,
)


@pytest.fixture
def _forgotten_options() -> Iterator[None]:
    """Collect the option classes that a test defines, which would be known to the tests after it."""
    yield
    gc.collect()


class MyOptions(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--my_input", default="in.txt")
        parser.add_argument("--my_size", type=int, default=1)
        parser.add_argument("--my_tags", action="append", default=["a"])
        parser.add_argument("--my_mode", choices=["fast", "slow"])
        parser.add_argument("--my-dash", type=float)
        parser.add_argument("--my_bool", type=bool)


class MoreOptions(MyOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--more_password")


# Made in a function: every subclass that there is takes part in all that is said of options.
def strict_options():
    class StrictOptions(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--strict_name", required=True)

    return StrictOptions


def test_flags_are_read_with_their_types():
    options = PipelineOptions(["--my_input=a b", "--my_size", "-3", "--my-dash=.5"]).view_as(MyOptions)
    assert ("a b", -3, 0.5) == (options.my_input, options.my_size, options.my_dash)


def test_what_isnt_given_has_its_default():
    options = PipelineOptions([]).view_as(MyOptions)
    assert ("in.txt", 1, ["a"], None) == (options.my_input, options.my_size, options.my_tags, options.my_mode)


def test_a_repeated_flag_adds_to_its_default():
    """As argparse does."""
    assert ["a", "b", "c"] == MyOptions(["--my_tags", "b", "--my_tags", "c"]).my_tags
    assert ["a"] == MyOptions([]).my_tags


def test_keywords_come_before_flags():
    assert 5 == PipelineOptions(["--my_size=3"], my_size=5).view_as(MyOptions).my_size
    assert 5 == MyOptions(["--my_size=3"], my_size=5).my_size


def test_a_view_inherits_the_flags_of_its_bases():
    options = MoreOptions(["--my_size=3", "--more_password=x"])
    assert (3, "x") == (options.my_size, options.more_password)


def test_what_is_set_on_one_view_is_read_on_all():
    options = PipelineOptions([])
    before = options.view_as(MyOptions)
    options.view_as(MoreOptions).my_size = 7
    assert [7, 7] == [before.my_size, options.view_as(MyOptions).my_size]


def test_without_flags_the_command_line_is_read(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program", "--my_size=4"])
    assert 4 == PipelineOptions().view_as(MyOptions).my_size


def test_the_command_line_of_pytest_is_not_read(monkeypatch):
    """Unlike one that a test sets."""
    assert pipeline_options.command_line_of_pytest == sys.argv
    monkeypatch.setattr(pipeline_options, "command_line_of_pytest", ["pytest", "--my_size=4"])
    monkeypatch.setattr(sys, "argv", ["pytest", "--my_size=4"])
    assert 1 == PipelineOptions().view_as(MyOptions).my_size


def test_a_dictionary_becomes_flags():
    given = {"my_size": 3, "streaming": True, "my_tags": ["b"], "my_mode": None, "pipeline_type_check": False}
    options = PipelineOptions.from_dictionary(given)
    options.check_known()
    assert (3, ["a", "b"], None) == tuple(
        getattr(options.view_as(MyOptions), name) for name in ("my_size", "my_tags", "my_mode")
    )
    assert options.view_as(StandardOptions).streaming
    assert not options.view_as(TypeOptions).pipeline_type_check


def test_all_options_are_those_of_all_views():
    options = PipelineOptions(["--my_size=3", "--runner=local"], other=1)
    every = options.get_all_options()
    assert (3, "local", False) == (every["my_size"], every["runner"], every["streaming"])
    assert {"my_size": 3, "runner": "local"} == options.get_all_options(drop_default=True)
    assert {"my_size": 3, "runner": "local", "other": 1} == options.get_all_options(
        drop_default=True, retain_unknown_options=True
    )


def test_asking_for_all_options_requires_none():
    view = strict_options()
    assert None is PipelineOptions([]).get_all_options()["strict_name"]
    del view


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--my_size", "abc"], "option --my_size: expected an int, got 'abc'"),
        (["--my-dash=abc"], "option --my-dash: expected a number, got 'abc'"),
        (["--my_bool=maybe"], "option --my_bool: expected true or false, got 'maybe'"),
        (["--my_mode=wrong"], "option --my_mode: expected one of 'fast', 'slow', got 'wrong'"),
        (["--my_size"], "option --my_size: expected one argument"),
    ],
)
def test_a_value_of_the_wrong_type_names_flag_value_and_type(flags, message):
    options = PipelineOptions(flags)
    with pytest.raises(OptionsError) as error:
        options.view_as(MyOptions)
    assert message == str(error.value)


def test_an_option_with_two_names_is_named_by_the_first():
    """The other one is Beam's."""
    with pytest.raises(OptionsError, match="option --parallelism: expected an int, got 'abc'"):
        PipelineOptions(["--parallelism=abc"]).view_as(StreamingOptions)


def test_a_flag_with_a_wrong_value_shows_the_usage_and_exits_with_2(capsys):
    """As with argparse, for a program that doesn't catch the error."""
    with pytest.raises(SystemExit) as error:
        PipelineOptions(["--my_mode=wrong"]).view_as(MyOptions)
    assert 2 == error.value.code
    usage, _, message = capsys.readouterr().err.rstrip().rpartition("\n")
    assert usage.startswith("usage: ")
    assert "--my_mode {fast,slow}" in usage
    assert "option --my_mode: expected one of 'fast', 'slow', got 'wrong'" == message


def test_a_bool_is_what_it_says():
    assert [False, True] == [MyOptions([f"--my_bool={text}"]).my_bool for text in ("False", "true")]


def test_a_required_flag_is_asked_for_unless_given_by_keyword():
    view = strict_options()
    with pytest.raises(OptionsError) as error:
        PipelineOptions([]).view_as(view)
    assert "StrictOptions: the option --strict_name is required and was not given" == str(error.value)
    assert "x" == PipelineOptions([], strict_name="x").view_as(view).strict_name
    assert "y" == PipelineOptions(["--strict_name=y"]).view_as(view).strict_name


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--runer", "local"], "unknown option --runer; did you mean --runner?"),
        (["--my_imput=x"], "unknown option --my_imput; did you mean --my_input?"),
        (["--save-main-session"], "unknown option --save-main-session; did you mean --save_main_session?"),
        (["--spark_mas"], "unknown option --spark_mas; did you mean --spark_master?"),
        (
            ["--zzz=1"],
            "unknown option --zzz; is it an option of your own? Then declare it in a subclass of PipelineOptions",
        ),
    ],
)
def test_an_unknown_flag_is_answered_with_the_nearest(flags, message):
    options = PipelineOptions(flags)
    with pytest.raises(OptionsError) as error:
        options.check_known()
    assert message == str(error.value)


def test_an_unknown_keyword_is_answered_with_the_nearest():
    with pytest.raises(OptionsError) as error:
        PipelineOptions([], runer="local").check_known()
    assert "unknown option 'runer'; did you mean runner?" == str(error.value)


def test_known_flags_and_their_values_pass():
    PipelineOptions(
        ["--runner", "local", "--my_size", "-3", "--my-dash", "-.5", "a b", "-x y", "--", "--zzz"]
    ).check_known()


def test_on_the_command_line_only_a_misspelled_option_is_complained_of(monkeypatch):
    """The other flags may be the program's own."""
    monkeypatch.setattr(sys, "argv", ["program", "--output=x", "-v"])
    PipelineOptions().check_known()
    monkeypatch.setattr(sys, "argv", ["program", "--runer=x"])
    with pytest.raises(OptionsError) as error:
        PipelineOptions().check_known()
    assert "unknown option --runer; did you mean --runner?" == str(error.value)


def test_flags_of_views_defined_later_are_known():
    options = PipelineOptions(["--strict_name=x"])
    view = strict_options()
    options.check_known()
    assert "x" == options.view_as(view).strict_name


def test_another_views_option_names_that_view():
    options = PipelineOptions([])
    for action in (lambda: options.runner, lambda: setattr(options, "runner", "local")):
        with pytest.raises(AttributeError) as error:
            action()
        assert (
            "PipelineOptions has no option 'runner'; StandardOptions has: options.view_as(StandardOptions).runner"
        ) == str(error.value)


def test_an_unknown_option_is_answered_with_those_of_the_view():
    with pytest.raises(AttributeError) as error:
        PipelineOptions([]).view_as(StandardOptions).zzz
    options = "auto_unique_labels, no_wait_until_finish, runner, streaming"
    assert f"StandardOptions has no option 'zzz'; it has {options}" == str(error.value)


def test_a_view_is_a_class_of_options():
    with pytest.raises(OptionsError) as error:
        PipelineOptions([]).view_as(dict)
    assert "view_as takes a subclass of PipelineOptions, not <class 'dict'>" == str(error.value)


def test_secrets_are_hidden():
    options = PipelineOptions(
        ["--more_password=abc", "--spark_conf=fs.s3a.secret.key=abc", "--spark_conf=a=b"], my_token="abc"
    )
    shown = {"more_password": "***", "spark_conf": ["fs.s3a.secret.key=***", "a=b"], "my_token": "***"}
    assert shown == options.display_data()
    assert "abc" not in repr(options)
    assert "abc" == options.view_as(MoreOptions).more_password


def test_options_show_what_was_given():
    assert "PipelineOptions(runner='local')" == repr(PipelineOptions(["--runner=local"]))
    assert "PipelineOptions(<option --my_size: expected an int, got 'x'>)" == repr(PipelineOptions(["--my_size=x"]))


def test_options_travel():
    options = PipelineOptions(["--my_size=3"], my_input="x").view_as(MyOptions)
    for other in (pickle.loads(pickle.dumps(PipelineOptions(["--runner=r"]))), copy.deepcopy(options)):
        assert type(other)(other._flags, **other._given) == other
    assert (3, "x") == (copy.deepcopy(options).my_size, copy.copy(options).my_input)
    assert "r" == pickle.loads(pickle.dumps(PipelineOptions(["--runner=r"]))).view_as(StandardOptions).runner


def test_a_switch_has_its_contrary():
    def checks(*flags):
        return PipelineOptions(list(flags)).view_as(TypeOptions).pipeline_type_check

    assert [True, False, True] == [
        checks(),
        checks("--no_pipeline_type_check"),
        checks("--no_pipeline_type_check", "--pipeline_type_check"),
    ]
    assert [None, True, False] == [
        PipelineOptions(flags).view_as(ProgressOptions).progress for flags in ([], ["--progress"], ["--no_progress"])
    ]


def test_the_defaults_of_the_built_in_views():
    options = PipelineOptions([])
    assert (None, False) == (options.view_as(StandardOptions).runner, options.view_as(StandardOptions).streaming)
    assert None is options.view_as(SetupOptions).save_main_session
    assert False is options.view_as(ProfilingOptions).profile_cpu


@pytest.mark.parametrize("flag", ["--deliveries=strong", "--batch_size=1"])
def test_a_flag_that_would_do_nothing_is_unknown(flag):
    with pytest.raises(OptionsError) as error:
        PipelineOptions([flag]).check_known()
    assert str(error.value).startswith(f"unknown option {flag.partition('=')[0]}; ")


def test_experiments_are_names_or_pairs():
    debug = PipelineOptions(["--experiments=a", "--experiment", "b=2"]).view_as(DebugOptions)
    debug.add_experiment("c")
    debug.add_experiment("a")
    assert ["a", "b=2", "c"] == debug.experiments
    assert [True, "2", None, 0] == [*map(debug.lookup_experiment, "abx"), debug.lookup_experiment("x", 0)]


def test_spark_settings_come_as_pairs():
    def conf(*args, **kwargs):
        return PipelineOptions(*args, **kwargs).view_as(SparkOptions).conf()

    assert {"a": "1", "b": "x=y"} == conf(["--spark_conf", "a=1", "--spark_conf=b=x=y"])
    assert {"a": "1"} == conf([], spark_conf={"a": 1})
    assert {} == conf([])
    with pytest.raises(OptionsError) as error:
        conf(["--spark_conf=abc"])
    assert "option --spark_conf: expected key=value, got 'abc'" == str(error.value)


def test_options_in_scope_are_those_of_the_innermost_block():
    outer, inner = PipelineOptions([]), PipelineOptions([], streaming=True)
    assert None is get_pipeline_options()
    with scoped_pipeline_options(outer):
        with scoped_pipeline_options(inner):
            assert inner is get_pipeline_options()
        assert outer is get_pipeline_options()
    assert None is get_pipeline_options()


def test_all_options_can_be_described():
    text = describe_options()
    assert "StandardOptions: The runner and its mode.\n" in text
    assert "  --runner RUNNER" in text
    assert "MyOptions: \n" in text


def test_a_name_shared_by_two_views_keeps_each_ones_default():
    class First(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--shared_name", default="first")

    class Second(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--shared_name", default="second")

    options = PipelineOptions([])
    assert ("first", "second") == (options.view_as(First).shared_name, options.view_as(Second).shared_name)


# --- Parsers of penstock's own views are kept


def test_what_one_has_said_the_next_does_not_hear():
    """The parser is the same, values and defaults aren't."""
    first = PipelineOptions(["--experiments=a", "--spark_master=local[7]"])
    assert (["a"], "local[7]") == (first.view_as(DebugOptions).experiments, first.view_as(SparkOptions).spark_master)
    second = PipelineOptions([])
    assert (None, None) == (second.view_as(DebugOptions).experiments, second.view_as(SparkOptions).spark_master)


def test_a_flag_that_was_refused_is_taken_once_it_is_right():
    """An error in the midst of parsing leaves nothing behind."""
    with pytest.raises(OptionsError):
        PipelineOptions(["--parallelism=many"]).view_as(StreamingOptions)
    options = PipelineOptions(["--parallelism=3"]).view_as(StreamingOptions)
    assert (3, 10.0) == (options.parallelism, options.checkpoint_interval)


def test_no_default_of_a_built_in_view_can_be_changed():
    """It would change for all pipelines to come."""
    views = [view for view in pipeline_options.views_of_options() if view.__module__ == StandardOptions.__module__]
    for view in views:
        for default in pipeline_options._parser(view).defaults().values():
            if isinstance(default, (list, dict)):
                default.clear()
                default.extend("x") if isinstance(default, list) else default.update(x=1)
    defaults = {name: default for view in views for name, default in pipeline_options._parser(view).defaults().items()}
    assert [] == [name for name, default in defaults.items() if isinstance(default, (list, dict)) and default]


def test_a_view_of_the_users_may_change_its_mind(monkeypatch):
    """About a default that it takes from the environment, say."""

    class Fickle(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--fickle_home", default=os.environ.get("FICKLE_HOME"))

    found = []
    for home in ("/a", "/b"):
        monkeypatch.setenv("FICKLE_HOME", home)
        found.append(PipelineOptions([]).view_as(Fickle).fickle_home)
    assert ["/a", "/b"] == found


def test_threads_do_not_share_a_parser():
    """It changes while it parses."""
    with ThreadPoolExecutor(1) as other:
        assert (
            pipeline_options._parser(SparkOptions) is not other.submit(pipeline_options._parser, SparkOptions).result()
        )


def broken_options():
    class BrokenOptions(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--fine", default="fine")
            parser.add_nothing("--broken")

    return BrokenOptions


@pytest.mark.usefixtures("_forgotten_options")
def test_a_class_of_options_that_fails_is_named_where_it_is_used_and_harms_no_others(caplog):
    broken = broken_options()
    PipelineOptions(["--my_size=2"]).check_known()
    assert PipelineOptions(["--my_size=2"]).get_all_options(drop_default=True) == {"my_size": 2}
    assert "MyOptions" in describe_options()
    assert len([record for record in caplog.records if "BrokenOptions" in record.message]) == 1
    message = "BrokenOptions: its _add_argparse_args failed with AttributeError: .*'add_nothing'"
    with pytest.raises(OptionsError, match=message):
        PipelineOptions([]).view_as(broken)
    with pytest.raises(OptionsError, match=r"unknown option --fine; .* \(the options of BrokenOptions are unknown"):
        PipelineOptions(["--fine=1"]).check_known()


@pytest.mark.usefixtures("_forgotten_options")
def test_a_class_of_options_whose_default_is_of_the_wrong_type_harms_no_others():
    class WrongDefault(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--wrong_default", type=int, default="many")

    PipelineOptions(["--my_size=2"]).check_known()
    with pytest.raises(OptionsError, match="option --wrong_default: expected an int, got 'many'"):
        PipelineOptions([]).view_as(WrongDefault)


def grouped_options():
    class GroupedOptions(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            group = parser.add_argument_group("places", "Where to read and write.")
            group.add_argument("--grouped_input", required=True)
            group.add_argument("--grouped_switch", type=bool, default=True)
            either = parser.add_mutually_exclusive_group(required=True)
            either.add_argument("--grouped_fast", action="store_true")
            either.add_argument("--grouped_slow", action="store_true")
            parser.set_defaults(grouped_set=7)
            parser.register("type", "short", lambda text: text[:1])
            parser.add_argument("--grouped_short", type="short")

    return GroupedOptions


def test_a_parser_has_all_that_argparse_has():
    grouped = grouped_options()
    PipelineOptions(["--my_size=2"]).check_known()
    flags = ["--grouped_input=a", "--grouped_switch=false", "--grouped_fast", "--grouped_short=xyz"]
    options = PipelineOptions(flags).view_as(grouped)
    assert (options.grouped_input, options.grouped_switch, options.grouped_fast) == ("a", False, True)
    assert (options.grouped_set, options.grouped_short) == (7, "x")
    with pytest.raises(OptionsError, match="GroupedOptions: the option --grouped_input is required"):
        PipelineOptions([]).view_as(grouped)
    with pytest.raises(OptionsError, match="not allowed with argument --grouped_fast"):
        PipelineOptions(["--grouped_input=a", "--grouped_fast", "--grouped_slow"]).view_as(grouped)
    with pytest.raises(OptionsError, match="one of the options --grouped_fast, --grouped_slow is required"):
        PipelineOptions(["--grouped_input=a"]).view_as(grouped)
