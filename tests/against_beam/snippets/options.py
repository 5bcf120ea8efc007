"""Pipeline options."""

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    TypeOptions,
    WorkerOptions,
)
from apache_beam.options.value_provider import NestedValueProvider, StaticValueProvider
from refusals import refused


class _Mine(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--greeting", default="hello")
        parser.add_argument("--times", type=int, default=1)


def flags() -> None:
    options = PipelineOptions(["--greeting=hi", "--times=3"]).view_as(_Mine)
    print(options.greeting, options.times)


def defaults() -> None:
    options = PipelineOptions([]).view_as(_Mine)
    print(options.greeting, options.times)


def keywords() -> None:
    options = _Mine(greeting="hey", times=4)
    print(options.greeting, options.times)


def from_a_dictionary() -> None:
    options = PipelineOptions.from_dictionary({"greeting": "ho", "times": 2, "streaming": True})
    print(options.view_as(_Mine).greeting, options.view_as(_Mine).times, options.view_as(StandardOptions).streaming)


def changes_through_views() -> None:
    options = PipelineOptions([])
    options.view_as(_Mine).greeting = "changed"
    options.view_as(StandardOptions).streaming = True
    print(options.view_as(_Mine).greeting, options.view_as(StandardOptions).streaming)


def all_options() -> None:
    found = PipelineOptions(["--greeting=hi"]).view_as(_Mine).get_all_options(drop_default=True)
    print(found)


def all_options_with_defaults() -> None:
    found = _Mine([]).get_all_options()
    print(found["greeting"], found["times"], found["streaming"])


def a_required_option() -> None:
    class Required(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--needed_by_this_snippet", required=True)

    try:
        PipelineOptions([]).view_as(Required)
    except SystemExit as error:
        print("exit", error.code)
    print(PipelineOptions(["--needed_by_this_snippet=1"]).view_as(Required).needed_by_this_snippet)


def an_attribute_that_is_missing() -> None:
    with refused(AttributeError):
        _ = PipelineOptions([]).view_as(_Mine).absent


def options_of_a_pipeline() -> None:
    with beam.Pipeline(options=PipelineOptions(["--times=5"])) as p:
        print(p.options.view_as(_Mine).times)


def options_by_argv() -> None:
    with beam.Pipeline(argv=["--times=6"]) as p:
        print(p.options.view_as(_Mine).times)


def views_of_beam() -> None:
    options = PipelineOptions(["--project=p", "--temp_location=/tmp/x", "--job_name=j", "--region=r"])
    cloud = options.view_as(GoogleCloudOptions)
    print(cloud.project, cloud.temp_location, cloud.job_name, cloud.region)
    print(options.view_as(StandardOptions).streaming, options.view_as(SetupOptions).save_main_session)
    print(options.view_as(WorkerOptions).num_workers, options.view_as(TypeOptions).pipeline_type_check)


def experiments() -> None:
    options = PipelineOptions(["--experiments=a,b", "--experiments=c=1"]).view_as(DebugOptions)
    print(options.experiments, options.lookup_experiment("c"), options.lookup_experiment("d"))
    options.add_experiment("e")
    print(options.experiments)


def a_switch() -> None:
    class Switch(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--switched_on", action="store_true")

    print(
        PipelineOptions(["--switched_on"]).view_as(Switch).switched_on, PipelineOptions([]).view_as(Switch).switched_on
    )


def a_list_of_values() -> None:
    class Listed(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--listed_value", action="append")

    print(PipelineOptions(["--listed_value=a", "--listed_value=b"]).view_as(Listed).listed_value)


def value_providers() -> None:
    one = StaticValueProvider(int, "5")
    print(one.get(), one.is_accessible(), NestedValueProvider(one, lambda x: x + 1).get())


def value_providers_of_options() -> None:
    class Provided(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_value_provider_argument("--provided_word", default="none")

    given = PipelineOptions(["--provided_word=x"]).view_as(Provided).provided_word
    print(given.is_accessible(), given.get(), type(given).__name__)


def options_as_a_dictionary_of_strings() -> None:
    print(str(PipelineOptions(["--times=5"]).view_as(_Mine).times))


def names_of_options() -> None:
    options = PipelineOptions(["--times=5"])
    print("times" in dir(options.view_as(_Mine)))


def the_context_of_options() -> None:
    from apache_beam.options.pipeline_options_context import get_pipeline_options, scoped_pipeline_options

    options = PipelineOptions(["--times=8"])
    with scoped_pipeline_options(options):
        print(get_pipeline_options().view_as(_Mine).times)
