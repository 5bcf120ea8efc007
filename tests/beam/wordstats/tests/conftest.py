import apache_beam as beam
import pytest


@pytest.fixture
def lines():
    return beam.Create(["To be, or not", "", "to be"])
