"""Names of the package: imported when they are used, at Beam's paths, and added by other packages.

lazy_imports.py      names of a package whose modules are imported when the names are used
namespaces.py        modules of names, at Beam's paths: `penstock.window`
extensions.py        packages that add names, converters and methods to the core
foreign_programs.py  programs that import another SDK
"""
