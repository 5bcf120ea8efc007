"""Statistics of words: a package written for Beam, as others write them.  test_pytest_plugin.py runs its tests."""
