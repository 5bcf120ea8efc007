"""Beam's interfaces for files and sources of the user, over penstock's own.

file_systems.py       FileSystems: operations on files of any file system
file_system.py        FileSystem, which users implement for paths of their own, and LocalFileSystem
compressed_file.py    CompressedFile: the decompressed content of an open file
streams.py            DownloaderStream and UploaderStream, for such file systems
bounded_source.py     BoundedSource, which is read by ranges of positions, and ConcatSource
unbounded_source.py   UnboundedSource, whose readers mark their positions
range_trackers.py     the ranges
counting_source.py    CountingSource: the numbers from 0
sink.py               Sink with its Writers
file_based_sink.py    FileBasedSink: files in a format of the user's own
file_based_source.py  FileBasedSource: files in a format of the user's own
run_results.py        matchers of a run's state and files, for PyHamcrest
source_test_utils.py  checks of sources
test_utils.py         temporary files, hashes and retries in tests
tf_record.py          ReadFromTFRecord and WriteToTFRecord
avro_schemas.py       Avro's schemas as Beam's portable schemas, and back
gcp/                  services of Google Cloud
managed.py            Read and Write of systems by their names
service_transforms.py reads and writes of services that penstock doesn't have
"""
