"""A server with the API of Google Cloud Storage, and a directory of a test's own."""

from servers.fixtures import directory as directory
from servers.fixtures import gcs as gcs
