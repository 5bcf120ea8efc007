import doctest
import importlib
import pkgutil

import pytest

import penstock.windowing

MODULES = [module.name for module in pkgutil.iter_modules(penstock.windowing.__path__, "penstock.windowing.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_every_module_run(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (0, True) == (failed, tried > 0)
