"""Import to make `import apache_beam` import penstock, as worker processes of a program for Beam do."""

from .import_hook import install_import_hook

install_import_hook()
