"""Build a release of the last commit into dist/, and try it: `python tests/release`, or `make release`.

1. The sdist and the wheel are built twice, from two copies of the commit, and compared byte by byte.
2. The changelog of the sdist has the fragments of `changes/`; those of the checkout stay (`make changelog` moves them).
3. twine checks the metadata.
4. Both are installed into fresh environments of each Python that can be found, and a smoke test is run there: with the
   newest dependencies, and with the oldest that pyproject.toml allows, for each extra by itself.
5. An SBOM lists what the wheel needs with all extras.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from release.building import ROOT, build, digest, run, version
from release.environments import extras, find_python, smoke, write_sbom

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]

# Needs more than pip: `jre` is tried with `spark`, and `all` is the environment of the SBOM.
NOT_ALONE = {"all", "dev", "docs", "jre"}


def main() -> None:
    """Build, and try what was built; the first failure ends it."""
    parser = argparse.ArgumentParser(prog="tests/release", description=__doc__.partition("\n")[0])
    parser.add_argument("--python", nargs="*", default=PYTHONS, help="versions, or paths of interpreters")
    parser.add_argument("--extras", nargs="*", default=sorted(set(extras()) - NOT_ALONE), help="tried one by one")
    parser.add_argument("--no-sbom", action="store_true")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="penstock-release-") as directory:
        work = pathlib.Path(directory)
        first, second = build(work / "first"), build(work / "second")
        for one, other in zip(first, second, strict=True):
            if digest(one) != digest(other):
                sys.exit(f"{one.name} isn't reproducible: two builds of one commit differ")
        dist = ROOT / "dist"
        dist.mkdir(exist_ok=True)
        sdist, wheel = (file.replace(dist / file.name) for file in first)
        run([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)])
        for file in (sdist, wheel):
            print(f"{file.relative_to(ROOT)}: built twice, equal, sha256 {digest(file)}", flush=True)

        pythons = {name: find_python(name) for name in options.python}
        for name, python in pythons.items():
            if python is None:
                print(f"Python {name}: not found, so not tried", flush=True)
                continue
            smoke(work, python, sdist, "highest", None)
            smoke(work, python, wheel, "highest", None)
            smoke(work, python, wheel, "lowest-direct", None)
        found = [python for python in pythons.values() if python is not None]
        for extra in options.extras:
            smoke(work, found[0], wheel, "lowest-direct", extra)
            smoke(work, found[0], wheel, "highest", extra)
        if not options.no_sbom:
            sbom = write_sbom(work, found[0], wheel, dist / f"penstock-{version()}.cdx.json")
            print(f"{sbom.relative_to(ROOT)}: written", flush=True)


if __name__ == "__main__":
    main()
