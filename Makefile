# Two commands do everything on a machine with Python 3.11, Java 17 and Maven: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
AIRFLOW_VENV := .venv-airflow
JARS := .jars
KAFKA := .kafka
# Whose rules and records tests/kafka compares with, the newest last; each has a profile in replay/controller/profiles.py.
KAFKA_RELEASES := $(shell cat tests/kafka/releases.txt)
DEMO := demo
CAPTURE := examples/unclean.tar.xz

.DEFAULT_GOAL := help
.PHONY: help setup jars jars-s3 demo test test-airflow test-slow test-browser test-kafka test-faults fuzz simulate bench lint format types imports check clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

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

$(KAFKA)/.ready: tests/kafka/pom.xml tests/kafka/Oracle.java
	rm -rf $(KAFKA) && mkdir -p $(KAFKA)
	mvn --quiet --batch-mode -f tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA)
	javac -nowarn -cp '$(KAFKA)/*' -d $(KAFKA) tests/kafka/Oracle.java
	touch $@

# Oracle.java needs classes that older releases have elsewhere: it is compiled with the newest alone.
RELEASE_PROGRAMS := tests/kafka/PolicyCases.java tests/kafka/EveryRecord.java
$(KAFKA)/releases/%/.ready: tests/kafka/release-pom.xml $(RELEASE_PROGRAMS) $(KAFKA)/.ready
	rm -rf $(@D) && mkdir -p $(@D)
	mvn --quiet --batch-mode -f tests/kafka/release-pom.xml -Dkafka.version=$* dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)
	javac -nowarn -cp '$(@D)/*' -d $(@D) $(RELEASE_PROGRAMS) $(if $(filter $*,$(lastword $(KAFKA_RELEASES))),tests/kafka/Oracle.java)
	touch $@

setup: $(VENV)/.ready $(JARS)/.ready  ## create .venv from the pinned requirements and fetch Delta's jars

jars: $(JARS)/.ready  ## fetch Delta's jars (conf/pom.xml is the list)

# Spark reads a lake in S3 with these (`sql`, `quality` of large tables); nothing else needs them.
jars-s3: $(JARS)-s3/.ready  ## fetch Spark's connector to S3, 18 MB (conf/s3-pom.xml is the list)

$(JARS)-s3/.ready: conf/s3-pom.xml
	rm -rf $(JARS)-s3 && mkdir -p $(JARS)-s3
	mvn --quiet --batch-mode -f conf/s3-pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(JARS)-s3
	touch $@

demo: setup  ## run the whole job on the bundled real capture and show the flagged windows
	$(BIN)/kraft-forensics run $(CAPTURE) --lake $(DEMO)/lake --report $(DEMO)/report.html

test: setup  ## run the tests in two processes, first those without Spark, then those with it
	$(BIN)/python -m pytest tests/unit --numprocesses 2 --dist loadfile
	$(BIN)/python -m pytest tests/spark --numprocesses 2 --dist loadfile --no-loadscope-reorder

test-airflow: setup $(AIRFLOW_VENV)/.ready  ## run the DAG on a real Airflow, in its own virtual environment
	KRAFT_FORENSICS_BIN=$(CURDIR)/$(BIN)/kraft-forensics $(AIRFLOW_VENV)/bin/python -m pytest -c tests/airflow/pytest.ini tests/airflow

test-slow: setup $(JARS)-s3/.ready  ## run the tests that take minutes: a cluster, an object store, repeated extension of histories, simulated lives
	tests/faults/compiler.sh
	$(BIN)/python -m pytest tests/slow

test-browser: setup  ## open the report of real captures and of 100,000 findings in a headless Chromium, installed if it is missing
	tests/browser/chromium.sh
	$(BIN)/python -m pytest tests/browser

test-kafka: setup $(KAFKA)/.ready $(KAFKA_RELEASES:%=$(KAFKA)/releases/%/.ready)  ## compare with Kafka's own classes, on new logs and decisions (needs Maven)
	$(BIN)/python -m pytest tests/kafka

# Kills at random moments; ONLY: a part of a fault's name.
FAULTS ?= 200
ONLY ?=
test-faults: setup  ## try the faults of machines, disks, stores and clocks on real processes; writes the table of docs/reliability.md
	tests/faults/compiler.sh
	$(BIN)/python -m tests.faults --moments $(FAULTS) --seed $(SEED) --only '$(ONLY)'

FUZZ_FILES ?= 100000
fuzz: setup  ## read damaged files of every kind: no crash, no hang, bounded memory, every byte accounted for
	$(BIN)/python -m tests.fuzz --files $(FUZZ_FILES)

LIVES ?= 100000
SEED ?= 1
simulate: setup  ## compare verdicts with the truth of simulated lives; wrong claims are shrunk and written to .simulated
	$(BIN)/python -m tests.simulator --lives $(LIVES) --seed $(SEED)

# Options of `make bench`, e.g. BENCH='--runs 3 --no-run' or BENCH=--growth.
BENCH ?=
bench: setup $(KAFKA)/.ready  ## time every stage on large inputs, with Kafka's own tool and classes for comparison (docs/benchmarks.md)
	$(BIN)/python -m bench --kafka $(KAFKA) $(BENCH)

lint: setup  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup  ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup  ## mypy, strict on evidence/ and replay/
	$(BIN)/mypy

imports: setup  ## import-linter: data goes one way, between packages and rooms
	$(BIN)/lint-imports

check: lint types imports  ## lint, types and imports: all checks that run no test

clean:  ## remove everything that the other targets made, virtual environments included
	rm -rf $(VENV) $(AIRFLOW_VENV) $(JARS) $(JARS)-s3 $(KAFKA) $(DEMO) .bench .simulated lake build dist *.egg-info spark-warehouse
