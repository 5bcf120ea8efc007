"""Beam's options, with Beam's defaults, which have no effect in penstock; and the runner in the place of Beam's."""

from __future__ import annotations

from typing import Any

from ..sdk.options.accepted import accept
from ..sdk.options.pipeline_options import PipelineOptions
from ..sdk.options.views import CredentialsOptions

__all__ = [
    "AzureOptions",
    "CrossLanguageOptions",
    "DirectOptions",
    "FlinkRunnerOptions",
    "GoogleCloudOptions",
    "HadoopFileSystemOptions",
    "JobServerOptions",
    "PortableOptions",
    "PrismRunnerOptions",
    "S3Options",
    "SparkRunnerOptions",
    "TestDataflowOptions",
    "TestOptions",
    "WorkerOptions",
]


class BeamRunnerOptions(PipelineOptions):
    """The runner in whose favour a program's own choice is passed over.

    >>> PipelineOptions(["--beam_runner=spark"]).view_as(BeamRunnerOptions).beam_runner
    'spark'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        help = "The runner in place of one of Beam's that the program names, such as DataflowRunner. Default: local."
        parser.add_argument("--beam_runner", help=help)


class DirectOptions(PipelineOptions):
    """Beam's direct runner, in whose place the local runner is; `--direct_num_workers` is `--parallelism`.

    >>> PipelineOptions(["--direct_num_workers=4"]).view_as(DirectOptions).direct_num_workers
    4
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        modes = ["in_memory", "multi_threading", "multi_processing"]
        parser.add_argument("--direct_num_workers", type=int, default=1, help="As --parallelism.")
        help = "Beam's; workers are processes in each mode."
        parser.add_argument("--direct_running_mode", choices=modes, default="in_memory", help=help)
        accept(parser, "direct_runner_bundle_repeat#=0 direct_embed_docker_python?")
        accept(parser, "no_direct_runner_use_stacked_bundle!", dest="direct_runner_use_stacked_bundle", default=True)
        accept(parser, "direct_test_splits{}", default={})


class GoogleCloudOptions(CredentialsOptions):
    """Google Cloud's services.

    >>> PipelineOptions(["--project=shop"]).view_as(GoogleCloudOptions).project
    'shop'
    """

    DATAFLOW_ENDPOINT = "https://dataflow.googleapis.com"
    OAUTH_SCOPES = [
        "https://www.googleapis.com/auth/bigquery",
        "https://www.googleapis.com/auth/cloud-platform",
        "https://www.googleapis.com/auth/devstorage.full_control",
        "https://www.googleapis.com/auth/userinfo.email",
        "https://www.googleapis.com/auth/datastore",
        "https://www.googleapis.com/auth/spanner.admin",
        "https://www.googleapis.com/auth/spanner.data",
    ]

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(
            parser,
            "job_name staging_location temp_location region service_account_email no_auth? template_location "
            "labels,label* update? transform_name_mapping{} enable_streaming_engine?True dataflow_kms_key "
            "create_from_snapshot flexrs_goal dataflow_service_options,dataflow_service_option+ "
            "enable_hot_key_logging? enable_artifact_caching? "
            "enable_bucket_read_metric_counter? enable_bucket_write_metric_counter? no_gcsio_throttling_counter? "
            "enable_gcsio_blob_generation? gcs_custom_audit_entries,gcs_custom_audit_entry*",
        )
        accept(parser, "dataflow_endpoint", default=cls.DATAFLOW_ENDPOINT)
        parser.add_argument("--project", help="The Google Cloud project of tables of BigQuery without one.")
        accept(parser, "gcp_oauth_scopes,gcp_oauth_scope*", default=cls.OAUTH_SCOPES)


class AzureOptions(PipelineOptions):
    """Azure's storage.

    >>> PipelineOptions(["--blob_service_endpoint=http://127.0.0.1:10000"]).view_as(AzureOptions).blob_service_endpoint
    'http://127.0.0.1:10000'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(parser, "azure_connection_string blob_service_endpoint azure_managed_identity_client_id")


class S3Options(PipelineOptions):
    """The storage S3.

    >>> PipelineOptions(["--s3_region_name=eu-west-1"]).view_as(S3Options).s3_region_name
    'eu-west-1'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(
            parser,
            "s3_access_key_id s3_secret_access_key s3_session_token s3_endpoint_url s3_region_name s3_api_version "
            "s3_verify s3_disable_ssl?",
        )


class HadoopFileSystemOptions(PipelineOptions):
    """Hadoop's file system.

    >>> PipelineOptions(["--hdfs_host=namenode"]).view_as(HadoopFileSystemOptions).hdfs_host
    'namenode'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(parser, "hdfs_host hdfs_port hdfs_user hdfs_full_urls?")


class WorkerOptions(PipelineOptions):
    """Machines and containers of workers.

    >>> PipelineOptions(["--num_workers=3"]).view_as(WorkerOptions).num_workers
    3
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(
            parser,
            "num_workers# max_num_workers# autoscaling_algorithm machine_type,worker_machine_type disk_size_gb# "
            "disk_type,worker_disk_type disk_provisioned_iops# disk_provisioned_throughput_mibps# worker_region "
            "worker_zone zone network subnetwork worker_harness_container_image sdk_container_image "
            "sdk_harness_container_image_overrides* default_sdk_harness_log_level sdk_harness_log_level_overrides{} "
            "use_public_ips?None min_cpu_platform max_cache_memory_usage_mb#=0 element_processing_timeout_minutes#",
        )
        accept(parser, "no_use_public_ips!", dest="use_public_ips", default=None)


class PortableOptions(PipelineOptions):
    """Beam's portable runners and the environments of their workers.

    >>> PipelineOptions(["--environment_type=LOOPBACK"]).view_as(PortableOptions).environment_type
    'LOOPBACK'
    """

    environment_options: list[str] | None

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(
            parser,
            "job_endpoint artifact_endpoint job_server_timeout,job-server-timeout#=300 environment_type "
            "environment_config environment_options,environment_option* sdk_worker_parallelism=1 "
            "environment_cache_millis=0 output_executable_path",
        )

    def add_environment_option(self, option: str) -> None:
        """Add an option of the environment, unless it is present."""
        if option not in (self.environment_options or []):
            self.environment_options = [*(self.environment_options or []), option]

    def lookup_environment_option(self, key: str, default: Any = None) -> Any:
        """Return the value of `key=value`, None for a `key` alone, or else `default`."""
        for option in self.environment_options or []:
            name, is_pair, value = option.partition("=")
            if name == key:
                return value if is_pair else None
        return default


class JobServerOptions(PipelineOptions):
    """Beam's job server.

    >>> PipelineOptions(["--job_port=8099"]).view_as(JobServerOptions).job_port
    8099
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(
            parser,
            "artifacts_dir job_port#=0 artifact_port#=0 expansion_port#=0 job_server_java_launcher=java jar_cache_dir",
        )
        accept(parser, "job_server_jvm_properties,job_server_jvm_property*", default=[])


class CrossLanguageOptions(PipelineOptions):
    """Services that expand cross-language transforms.

    >>> PipelineOptions(["--use_transform_service"]).view_as(CrossLanguageOptions).use_transform_service
    True
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(parser, "beam_services{}", default={})
        accept(parser, "use_transform_service?")


class FlinkRunnerOptions(PipelineOptions):
    """Beam's runner on Flink.

    >>> PipelineOptions(["--flink_master=localhost:8081"]).view_as(FlinkRunnerOptions).flink_master
    'localhost:8081'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(
            parser,
            "flink_master=[auto] flink_version=1.19 flink_job_server_jar flink_submit_uber_jar? max_parallelism#=-1",
        )


class SparkRunnerOptions(PipelineOptions):
    """Beam's runner on Spark.

    >>> PipelineOptions(["--spark_master_url=local[2]"]).view_as(SparkRunnerOptions).spark_master_url
    'local[2]'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(
            parser,
            "spark_master_url=local[4] spark_job_server_jar spark_submit_uber_jar? spark_rest_url spark_version=3",
        )


class PrismRunnerOptions(PipelineOptions):
    """Beam's Prism runner.

    >>> PipelineOptions(["--prism_log_level=debug"]).view_as(PrismRunnerOptions).prism_log_level
    'debug'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(parser, "prism_location prism_beam_version_override prism_log_level=info prism_log_kind=console")


class TestOptions(PipelineOptions):
    """Integration tests of Beam's runners.

    >>> PipelineOptions(["--wait_until_finish_duration=1000"]).view_as(TestOptions).wait_until_finish_duration
    1000
    """

    # No test of pytest's.
    __test__ = False

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(parser, "on_success_matcher wait_until_finish_duration#")
        accept(parser, "dry_run", default=False)


class TestDataflowOptions(PipelineOptions):
    """Tests of Dataflow.

    >>> PipelineOptions(["--pubsub_root_url=http://127.0.0.1:8085"]).view_as(TestDataflowOptions).pubsubRootUrl
    'http://127.0.0.1:8085'
    """

    __test__ = False

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        accept(parser, "pubsub_root_url", dest="pubsubRootUrl")
