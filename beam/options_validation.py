"""PipelineOptionsValidator: errors of options of Beam, for programs that check their options before they are deployed.

The options have no effect in penstock.  Those of Google's cloud are checked for the runners of Dataflow only.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from ..sdk.options.pipeline_options import PipelineOptions, views_of_options
from ..sdk.options.views import DebugOptions, ProfilingOptions, SetupOptions, StandardOptions, TypeOptions
from .options import GoogleCloudOptions, PortableOptions, TestOptions, WorkerOptions

_JOB_NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_PROJECT_ID = r"[a-z][-a-z0-9:.]+[a-z0-9]"
_BUCKET = r"[a-z0-9][-_a-z0-9.]+[a-z0-9]"

# By environment of workers, its options: the required ones, and the others.
_ENVIRONMENTS: dict[str, tuple[list[str], list[str]]] = {
    "DOCKER": ([], ["docker_container_image"]),
    "PROCESS": (["process_command"], ["process_variables"]),
    "EXTERNAL": (["external_service_address"], []),
    "LOOPBACK": ([], []),
}


class PipelineOptionsValidator:
    """Collects the errors of options, and of all views whose class defines `validate(validator)`, which returns texts.

    Args:
      runner: a runner, or its name.

    Fills in options that stand for others: `--temp_location` and `--staging_location`, `--zone`, and the names of the
    container's image.

    >>> PipelineOptionsValidator(PipelineOptions(["--num_workers=0", "--project=a-b"]), "local").validate()
    []
    >>> options = PipelineOptions(["--num_workers=0", "--project=a-b", "--region=x", "--temp_location=gs://bucket/tmp"])
    >>> PipelineOptionsValidator(options, "DataflowRunner").validate()
    ['Invalid value (0) for option: num_workers. Value needs to be positive.']
    """

    def __init__(self, options: PipelineOptions, runner: Any) -> None:
        self.options = options
        self.runner = runner

    def validate(self) -> list[str]:
        """Return the errors."""
        options = self.options
        errors = _of_lists(options) + _of_types(options) + _of_environment(options) + _of_images(options)
        errors += _of_profiler(options) + _of_matcher(options)
        if self.is_service_runner():
            errors += _of_locations(options) + self._of_job() + _of_workers(options)
        views = [view for view in views_of_options() if "validate" in vars(view)]
        return errors + [str(error) for view in views for error in options.view_as(view).validate(self)]

    def is_service_runner(self) -> bool:
        """Return whether the runner is Dataflow's, and its endpoint isn't on this machine."""
        name = self.runner if isinstance(self.runner, str) else type(self.runner).__name__
        endpoint = self.options.view_as(GoogleCloudOptions).dataflow_endpoint
        if name not in ("DataflowRunner", "TestDataflowRunner") or endpoint is None:
            return False
        return not urlsplit(endpoint).netloc.startswith("localhost")

    def _of_job(self) -> list[str]:
        cloud = self.options.view_as(GoogleCloudOptions)
        errors = []
        if cloud.job_name and not re.fullmatch(_JOB_NAME, cloud.job_name):
            errors.append(
                f"Invalid job_name ({cloud.job_name}): expected letters in lower case, digits and hyphens, with a "
                "letter first, and no hyphen last"
            )
        if cloud.project is None:
            errors.append("Missing required option: project.")
        elif not re.fullmatch(_PROJECT_ID, cloud.project):
            errors.append(
                f"Invalid Project ID ({cloud.project}); it is neither the project's number nor its description"
            )
        if cloud.update and not cloud.job_name:
            errors.append("Missing required option: job_name of the job to --update.")
        mapping = cloud.transform_name_mapping or {}
        if mapping and not (cloud.update and self.options.view_as(StandardOptions).streaming):
            errors.append("Transform name mapping option is only useful when --update and --streaming is specified")
        if any(not isinstance(one, str) for pair in mapping.items() for one in pair):
            errors.append(f"Invalid transform name mapping format. Expected names of transforms, got {mapping}")
        if cloud.region is None:
            cloud.region = getattr(self.runner, "get_default_gcp_region", lambda: None)()
        if cloud.region is None:
            errors.append("Missing required option: region.")
        found = urlsplit(cloud.dataflow_endpoint)
        if found.scheme not in ("http", "https") or not re.fullmatch(r"[-.a-zA-Z0-9]+", found.netloc):
            errors.append(f"Invalid url ({cloud.dataflow_endpoint}) for dataflow endpoint.")
        return errors


def _of_locations(options: PipelineOptions) -> list[str]:
    """Return the errors of both locations, unless one of them is right, which then stands for the other."""
    cloud = options.view_as(GoogleCloudOptions)
    errors = {name: _of_path(name, getattr(cloud, name)) for name in ("temp_location", "staging_location")}
    right = [name for name, error in errors.items() if not error]
    for name in errors:
        if right and name not in right:
            setattr(cloud, name, getattr(cloud, right[0]))
    return [] if right else list(errors.values())


def _of_path(name: str, path: str | None) -> str:
    if path is None:
        return f"Missing GCS path option: {name}."
    if not re.fullmatch(rf"gs://{_BUCKET}/[^\r\n]*", path, re.IGNORECASE if path.startswith("GS") else 0):
        return f"Invalid GCS path ({path}), given for the option: {name}; expected gs://bucket/name"
    return ""


def _of_workers(options: PipelineOptions) -> list[str]:
    workers = options.view_as(WorkerOptions)
    errors = [
        f"Invalid value ({number}) for option: {name}. Value needs to be positive."
        for name, number in (("num_workers", workers.num_workers), ("max_num_workers", workers.max_num_workers))
        if number is not None and number <= 0
    ]
    least, most = workers.num_workers, workers.max_num_workers
    if least is not None and most is not None and least > most:
        errors.append(f"num_workers ({least}) cannot exceed max_num_workers ({most})")
    given = [name for name in ("zone", "worker_region", "worker_zone") if getattr(workers, name)]
    experiments = options.view_as(DebugOptions).experiments or []
    if any(one.startswith("worker_region=") for one in experiments):
        given.append("the experiment worker_region")
    if len(given) > 1:
        errors.append(f"{' and '.join(given)} are mutually exclusive.")
    if workers.zone:
        workers.worker_zone = workers.worker_zone or workers.zone
        workers.zone = None
    return errors


def _of_images(options: PipelineOptions) -> list[str]:
    workers = options.view_as(WorkerOptions)
    new, old = workers.sdk_container_image, workers.worker_harness_container_image
    prebuilt = options.view_as(SetupOptions).prebuild_sdk_container_base_image
    errors = []
    if new and old and new != old:
        errors.append(f"worker_harness_container_image ({old}) is an older name of sdk_container_image ({new})")
    workers.sdk_container_image, workers.worker_harness_container_image = new or old, old or new
    if prebuilt is not None and prebuilt != (new or old):
        errors.append("prebuild_sdk_container_base_image is deprecated: use sdk_container_image")
    return errors


def _of_environment(options: PipelineOptions) -> list[str]:
    portable = options.view_as(PortableOptions)
    kind = portable.environment_type.upper() if portable.environment_type else None
    errors = []
    for environment, (required, others) in _ENVIRONMENTS.items():
        found = [name for name in [*required, *others] if portable.lookup_environment_option(name) is not None]
        if environment != kind:
            errors += [f"Option {name} is not compatible with environment type {kind}." for name in found]
        elif portable.environment_config and found:
            errors.append(f"Option environment_config is incompatible with option(s) {', '.join(found)}.")
        elif not portable.environment_config:
            missing = [name for name in required if name not in found]
            errors += [f"Option {name} is required for environment type {kind}." for name in missing]
    if kind == "LOOPBACK" and portable.environment_config:
        errors.append("Option environment_config is not compatible with environment type LOOPBACK.")
    return errors


def _of_lists(options: PipelineOptions) -> list[str]:
    lists = {
        "experiments": options.view_as(DebugOptions).experiments,
        "dataflow_service_options": options.view_as(GoogleCloudOptions).dataflow_service_options,
    }
    errors = [f"({value}) for {name}: expected a list" for name, value in lists.items() if isinstance(value, str)]
    if options.view_as(DebugOptions).dataflow_job_file and options.view_as(GoogleCloudOptions).template_location:
        errors.append("dataflow_job_file and template_location are mutually exclusive.")
    return errors


def _of_types(options: PipelineOptions) -> list[str]:
    features = options.view_as(TypeOptions).type_check_additional.split(",")
    unknown = [feature for feature in features if feature not in ("", "all", "ptransform_fn")]
    return [f"Unrecognized --type_check_additional feature: {feature}" for feature in unknown]


def _of_profiler(options: PipelineOptions) -> list[str]:
    profiling = options.view_as(ProfilingOptions)
    if profiling.profiler_agent and (profiling.profile_cpu or profiling.profile_memory):
        return ["profiler_agent is mutually exclusive with profile_cpu and profile_memory."]
    return []


def _of_matcher(options: PipelineOptions) -> list[str]:
    pickled = options.view_as(TestOptions).on_success_matcher
    if pickled is None:
        return []
    from .sdk import pickler

    try:
        matcher = pickler.loads(pickled)
    except Exception as error:
        return [f"Invalid value for option: on_success_matcher; it can't be unpickled: {error}"]
    if not hasattr(matcher, "matches") or isinstance(matcher, type):
        return [f"Invalid value ({matcher}) for option: on_success_matcher; expected a matcher of PyHamcrest"]
    return []
