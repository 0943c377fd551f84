# Two commands do everything on a machine with Python 3.11, Java 17 and Maven: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
AIRFLOW_VENV := .venv-airflow
JARS := .jars
DEMO := demo
CAPTURE := examples/unclean.tar.xz

.DEFAULT_GOAL := help
.PHONY: help setup jars demo test test-airflow fuzz lint format types imports check clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/.ready: pyproject.toml requirements/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e '.[dev]'
	touch $@

$(JARS)/.ready: conf/pom.xml
	rm -rf $(JARS) && mkdir -p $(JARS)
	mvn --quiet --batch-mode -f conf/pom.xml dependency:copy-dependencies -DexcludeTransitive=true -DoutputDirectory=$(CURDIR)/$(JARS)
	touch $@

$(AIRFLOW_VENV)/.ready: requirements/airflow.txt
	$(PYTHON) -m venv $(AIRFLOW_VENV)
	$(AIRFLOW_VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements/airflow.txt
	touch $@

setup: $(VENV)/.ready $(JARS)/.ready  ## create .venv from the pinned requirements and fetch Delta's jars

jars: $(JARS)/.ready  ## fetch Delta's jars (conf/pom.xml is the list)

demo: setup  ## run the whole job on the bundled real capture and show the flagged windows
	$(BIN)/kraft-forensics run $(CAPTURE) --lake $(DEMO)/lake --report $(DEMO)/report.html

test: setup  ## run the tests
	$(BIN)/python -m pytest

test-airflow: setup $(AIRFLOW_VENV)/.ready  ## run the DAG on a real Airflow, in its own virtual environment
	KRAFT_FORENSICS_BIN=$(CURDIR)/$(BIN)/kraft-forensics $(AIRFLOW_VENV)/bin/python -m pytest -c tests/airflow/pytest.ini tests/airflow

FUZZ_FILES ?= 100000
fuzz: setup  ## read damaged files of every kind: no crash, no hang, bounded memory, every byte accounted for
	$(BIN)/python -m tests.fuzz --files $(FUZZ_FILES)

lint: setup  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup  ## mypy, strict on evidence/ and replay/
	$(BIN)/mypy

imports: setup  ## import-linter: data goes one way
	$(BIN)/lint-imports

check: lint types imports  ## everything that needs no Spark

clean:  ## remove what the other targets made, the virtual environments included
	rm -rf $(VENV) $(AIRFLOW_VENV) $(JARS) $(DEMO) lake build dist *.egg-info spark-warehouse
