"""Values of Beam's transforms for BigQuery, which tests of programs use without the service."""

from __future__ import annotations


class BigQueryDisposition:
    """Whether a write to BigQuery creates a table, and what it does with the rows of an existing one.

    >>> BigQueryDisposition.validate_write("WRITE_APPEND")
    'WRITE_APPEND'
    """

    CREATE_NEVER = "CREATE_NEVER"
    CREATE_IF_NEEDED = "CREATE_IF_NEEDED"
    WRITE_TRUNCATE = "WRITE_TRUNCATE"
    WRITE_APPEND = "WRITE_APPEND"
    WRITE_EMPTY = "WRITE_EMPTY"

    @staticmethod
    def validate_create(disposition: str) -> str:
        """Return a disposition of creation.  Raises `ValueError` for another string."""
        known = (BigQueryDisposition.CREATE_NEVER, BigQueryDisposition.CREATE_IF_NEEDED)
        return _one_of(known, disposition, "create")

    @staticmethod
    def validate_write(disposition: str) -> str:
        """Return a disposition of writing.  Raises `ValueError` for another string."""
        known = (
            BigQueryDisposition.WRITE_TRUNCATE,
            BigQueryDisposition.WRITE_APPEND,
            BigQueryDisposition.WRITE_EMPTY,
        )
        return _one_of(known, disposition, "write")


def _one_of(known: tuple[str, ...], disposition: str, kind: str) -> str:
    if disposition not in known:
        raise ValueError(f"Invalid {kind} disposition {disposition}. Expecting {known}")
    return disposition
