"""Programs for Apache Beam: what other tools load to run them on penstock.

pytest_plugin.py  plugin for pytest that runs the tests of a program for Beam: `python -m pytest -p penstock.beam`
"""

from .pytest_plugin import pytest_load_initial_conftests as pytest_load_initial_conftests
from .pytest_plugin import pytest_report_header as pytest_report_header
