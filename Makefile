# Two commands do everything on a machine with Python 3.11, Java 17 and Maven: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
AIRFLOW_VENV := .venv-airflow
TOOLS_VENV := .venv-tools
DOCS_VENV := .venv-docs
FUZZ_VENV := .venv-fuzz
JARS := .jars
KAFKA := .kafka
# Whose rules and records tests/kafka compares with, the newest last; each has a profile in replay/controller/profiles.py.
KAFKA_RELEASES := $(shell cat tests/kafka/releases.txt)
KAFKA_READY := $(KAFKA)/.ready $(KAFKA_RELEASES:%=$(KAFKA)/releases/%/.ready) $(KAFKA)/drill/.ready
DEMO := demo
CAPTURE := examples/unclean.tar.xz

# What Python compiles it keeps, whatever the environment says: else each process that a test starts compiles all of it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup everything jars jars-s3 demo test test-airflow test-slow test-browser test-kafka test-wheel fuzz fuzz-coverage simulate mutants likely bench wheel wheelhouse lock bill audit lint format types imports check drill drill-seeds drill-case new-release test-faults docs test-airflow-live clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

# Everything is installed with the SHA-256 that requirements/ lists, what builds packages included.
INSTALL := pip install --quiet --disable-pip-version-check
LOCKED := $(INSTALL) --require-hashes

$(VENV)/.ready: pyproject.toml requirements/build.txt requirements/dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(LOCKED) -r requirements/build.txt
	$(BIN)/$(LOCKED) --no-build-isolation -r requirements/dev.txt
	$(BIN)/$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@

FETCH_JARS := KRAFT_FORENSICS_CONF= KRAFT_FORENSICS_SPARK__JARS_DIR=$(CURDIR)/$(JARS) $(BIN)/kraft-forensics setup
$(JARS)/.ready: conf/pom.xml conf/jars.sha256 jobs/spark/session.py | $(VENV)/.ready
	$(FETCH_JARS)
	touch $@

# SparkSubmitOperator without what it needs for other things (Spark Connect): spark-submit is the job's.
$(AIRFLOW_VENV)/.ready: requirements/airflow.txt requirements/airflow-spark.txt
	$(PYTHON) -m venv $(AIRFLOW_VENV)
	$(AIRFLOW_VENV)/bin/$(LOCKED) --only-binary :all: -r requirements/airflow.txt
	$(AIRFLOW_VENV)/bin/$(LOCKED) --no-deps --only-binary :all: -r requirements/airflow-spark.txt
	touch $@

$(TOOLS_VENV)/.ready: requirements/tools.txt
	$(PYTHON) -m venv $(TOOLS_VENV)
	$(TOOLS_VENV)/bin/$(LOCKED) --only-binary :all: -r requirements/tools.txt
	touch $@

$(DOCS_VENV)/.ready: requirements/docs.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/$(LOCKED) --only-binary :all: -r requirements/docs.txt
	touch $@

$(FUZZ_VENV)/.ready: requirements/fuzz.txt
	$(PYTHON) -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/$(LOCKED) --only-binary :all: -r requirements/fuzz.txt
	touch $@

$(KAFKA)/.ready: tests/kafka/pom.xml tests/kafka/Oracle.java
	rm -rf $(KAFKA) && mkdir -p $(KAFKA)
	mvn --quiet --batch-mode -f tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA)
	javac -nowarn -cp '$(KAFKA)/*' -d $(KAFKA) tests/kafka/Oracle.java
	touch $@

# Oracle.java needs classes that older releases have elsewhere: it is compiled with the newest alone.
RELEASE_PROGRAMS := tests/kafka/PolicyCases.java tests/kafka/EveryRecord.java tests/kafka/ControllerLives.java
$(KAFKA)/releases/%/.ready: tests/kafka/release-pom.xml $(RELEASE_PROGRAMS) $(KAFKA)/.ready
	rm -rf $(@D) && mkdir -p $(@D)
	mvn --quiet --batch-mode -f tests/kafka/release-pom.xml -Dkafka.version=$* dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)
	javac -nowarn -cp '$(@D)/*' -d $(@D) $(RELEASE_PROGRAMS) $(if $(filter $*,$(lastword $(KAFKA_RELEASES))),tests/kafka/Oracle.java)
	touch $@

# What the drills of tests/kafka run: two of them would fetch it at once, and write to one folder.
$(KAFKA)/drill/.ready: drill/nodes.py drill/pom.xml drill/DrillClient.java tests/kafka/releases.txt $(KAFKA)/.ready | $(VENV)/.ready
	$(BIN)/python -c 'from pathlib import Path; from drill.nodes import fetch; fetch("$(lastword $(KAFKA_RELEASES))", Path("$(@D)"))'
	touch $@

setup: $(VENV)/.ready $(JARS)/.ready  ## create .venv from the locked requirements and fetch Delta's jars

# What `.ci/run` needs before it runs suites side by side: two of apt-get at once, or of Maven, would fail.
everything: setup $(JARS)-s3/.ready $(KAFKA_READY) $(AIRFLOW_VENV)/.ready $(DOCS_VENV)/.ready  ## fetch what all suites need
	tests/browser/chromium.sh
	drill/iproute2.sh

jars: $(JARS)/.ready  ## fetch Delta's jars (conf/pom.xml is the list)

# Spark reads a lake in S3 with these (`sql`, `quality` of large tables); nothing else needs them.
jars-s3: $(JARS)-s3/.ready  ## fetch Spark's connector to S3, 18 MB (conf/s3-pom.xml is the list)

$(JARS)-s3/.ready: conf/s3-pom.xml conf/jars-s3.sha256 | $(VENV)/.ready
	$(FETCH_JARS) --s3
	touch $@

demo: setup  ## run the whole job on the bundled real capture and show the flagged windows
	$(BIN)/kraft-forensics run $(CAPTURE) --lake $(DEMO)/lake --report $(DEMO)/report.html

docs: setup $(DOCS_VENV)/.ready  ## build the documentation site in .site/html, strictly; executes the notebook
	rm -rf .site
	$(BIN)/kraft-forensics run --quiet --engine local $(CAPTURE) --lake .site/lake > /dev/null
	$(BIN)/python -m docs_site.pages .site
	LAKE=.site/lake $(DOCS_VENV)/bin/python -m docs_site.notebook .site/pages
	$(DOCS_VENV)/bin/zensical build --strict --clean --config-file .site/mkdocs.yml
	$(BIN)/python -m docs_site.offline .site/html

test: setup  ## run the tests in two processes, those with Spark in one of them
	$(BIN)/python -m pytest tests/unit tests/spark --numprocesses 2 --dist loadfile

AIRFLOW_TESTS = KRAFT_FORENSICS_BIN=$(CURDIR)/$(BIN)/kraft-forensics $(AIRFLOW_VENV)/bin/python -m pytest -c tests/airflow/pytest.ini

test-airflow: setup $(AIRFLOW_VENV)/.ready  ## test the DAGs in a real Airflow, in its own virtual environment
	$(AIRFLOW_TESTS) tests/airflow --ignore tests/airflow/live

test-airflow-live: setup $(AIRFLOW_VENV)/.ready  ## run the DAGs by Airflow's own scheduler: a backfill, a killed task, two runs at once
	$(AIRFLOW_TESTS) tests/airflow/live

test-slow: setup $(JARS)-s3/.ready  ## run the tests that take minutes: a cluster, an object store, repeated extension of histories, simulated lives
	tests/faults/compiler.sh
	$(BIN)/python -m pytest tests/slow --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 8
	$(BIN)/python -m pytest tests/alone --numprocesses 2 --dist loadfile --durations 8

test-browser: setup  ## open the report of real captures and of 100,000 findings in a headless Chromium, installed if it is missing
	tests/browser/chromium.sh
	$(BIN)/python -m pytest tests/browser

test-kafka: setup $(KAFKA_READY)  ## compare with Kafka's own classes, on new logs and decisions (needs Maven)
	drill/iproute2.sh
	$(BIN)/python -m pytest tests/kafka --numprocesses 2 --dist loadfile --no-loadscope-reorder

# From copies of the commit: what a working tree has besides cannot get in. The same commit gives the same bytes anywhere.
# A tree without git (an unpacked archive of the source) is copied as it is.
WHEEL_COPIES := build/wheel/one build/wheel/two
AS_IT_IS := tar --exclude='./.*' --exclude=./build --exclude=./dist --exclude=./demo --exclude='*.egg-info' --exclude=__pycache__ -c .
wheel: $(VENV)/.ready  ## build the wheel of the last commit into dist/, twice: fails unless the bytes are equal
	rm -rf build/wheel dist/*.whl && mkdir -p $(WHEEL_COPIES) dist
	umask 022 && for copy in $(WHEEL_COPIES); do mkdir -p $$copy/source && \
	  { git -c tar.umask=022 archive HEAD 2>/dev/null || $(AS_IT_IS); } | tar -x -C $$copy/source && \
	  SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1700000000) \
	  $(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $$copy $$copy/source || exit 1; done
	cmp build/wheel/one/*.whl build/wheel/two/*.whl
	cp build/wheel/one/*.whl dist && cd dist && sha256sum *.whl

# What an installation without a network needs: Containerfile builds an image from it.
wheelhouse: wheel $(JARS)/.ready  ## put the wheel, every locked package and Delta's jars into dist/house
	rm -rf dist/house && mkdir -p dist/house
	$(BIN)/pip download --quiet --require-hashes --dest dist/house -r requirements/build.txt
	$(BIN)/pip download --quiet --require-hashes --no-build-isolation --dest dist/house -r requirements/run.txt
	cp dist/*.whl $(JARS)/*.jar requirements/build.txt requirements/run.txt dist/house

# The wheel as a step of its own: as a prerequisite it would let make begin other suites first, and this one last.
test-wheel: $(JARS)/.ready  ## install the wheel with the locked requirements into an empty environment and run the demo there
	$(MAKE) --no-print-directory wheel
	$(BIN)/python -m pytest tests/wheel

# RELEASE: of Kafka; SCENARIO: one or more of drill/scenarios/, or a TOML file.
SEED ?= 1
RUNS ?= 1
RELEASE ?= $(lastword $(KAFKA_RELEASES))
SCENARIO ?= unclean_by_config
DRILL = $(BIN)/kraft-forensics drill --out drills --release $(RELEASE)
drill: setup  ## break a real Kafka on this machine and score the verdicts (docs/drill.md): RELEASE=, SCENARIO=, SEED=, RUNS=
	-drill/iproute2.sh
	$(DRILL) $(SCENARIO) --seed $(SEED) --runs $(RUNS)

# Seeds of `random` over nights: all releases play one seed, then the next one; what the scores have is not played again.
RELEASES ?= 4.0.2 4.1.0 4.2.0 4.3.1 4.4.0
SCORES := drill/scores.jsonl
DRILLS = $(BIN)/kraft-forensics drill --out drills --scores $(SCORES)
drill-seeds: setup  ## play the seeded random drills that the kept scores lack, and renew the tables: RELEASES=, SEED=, RUNS=30
	-for seed in $$(seq $(SEED) $$(($(SEED) + $(RUNS) - 1))); do for release in $(RELEASES); do \
	  $(DRILLS) random --release $$release --seed $$seed --resume; done; done
	$(BIN)/python -m docs_site.drills_page

# RUN: a drill's folder; PARTITION: which one, if not the first with a wrong claim or a loss.
drill-case: setup  ## make a regression case of a drill, thinned to one partition: RUN=drills/..., PARTITION=
	$(BIN)/python -m tests.support.drill_case $(RUN) $(PARTITION)

# tests/kafka says what differs from what is known; then the drills run all the same.
new-release: setup $(KAFKA)/.ready  ## compare a new release of Kafka with what is known, then break it: RELEASE=4.5.0
	$(MAKE) $(KAFKA)/releases/$(RELEASE)/.ready && mkdir -p drills
	-KAFKA_RELEASE=$(RELEASE) $(BIN)/python -m pytest tests/kafka/test_schemas.py tests/kafka/test_policies.py -k '$(RELEASE)' > drills/$(RELEASE).txt
	cat drills/$(RELEASE).txt
	-$(DRILL) $(filter-out random,$(basename $(notdir $(wildcard drill/scenarios/*.toml))))
	$(DRILL) --runs 3 random

# Kills at random moments. ROWS: a text in `fault | where`; RESUME=1: without the rows that the page has for this commit.
FAULTS ?= 200
ROWS ?=
RESUME ?=
test-faults: setup  ## try signals and faults of machines, disks, stores and clocks on real processes; writes docs/faults.csv and its sums in docs/reliability.md
	tests/faults/compiler.sh
	$(BIN)/python -m tests.faults --moments $(FAULTS) --seed $(SEED) --rows '$(ROWS)' $(if $(RESUME),--resume)

FUZZ_FILES ?= 100000
fuzz: setup  ## read damaged files of every kind: no crash, no hang, bounded memory, every byte accounted for
	$(BIN)/python -m tests.fuzz --files $(FUZZ_FILES)

# Seconds for each target; TARGETS: some of those in tests/fuzz/guided.py.
FUZZ_SECONDS ?= 240
TARGETS ?=
fuzz-coverage: $(FUZZ_VENV)/.ready  ## the same with files that reach new code, chosen by Atheris; keeps what it found in .fuzz
	$(FUZZ_VENV)/bin/python -m tests.fuzz.guided --seconds $(FUZZ_SECONDS) $(if $(TARGETS),--only $(TARGETS))

LIVES ?= 100000
simulate: setup  ## compare verdicts with the truth of simulated lives; wrong claims are shrunk and written to .simulated
	$(BIN)/python -m tests.simulator --lives $(LIVES) --seed $(SEED)

# Options of tests.mutants, e.g. MUTANTS='--only H7 --lives 10000'. The table has what was found before.
MUTANTS ?= --table docs/mutants.csv
mutants: setup  ## leave out one condition of one rule at a time, and see what catches it: writes docs/mutants.csv
	$(BIN)/python -m tests.mutants $(MUTANTS)

# FOLDERS: of drills, with their lakes.
FOLDERS ?= $(wildcard drills/random-*)
likely: setup  ## write the record of the rules of `likely`, of simulated lives and drills: LIVES=, FOLDERS='drills/random-*'
	$(BIN)/python -m tests.likely --lives $(LIVES) --out replay/loss/likely_record.py $(FOLDERS)

# Options of `make bench`, e.g. BENCH='--runs 3 --run-runs 0' or BENCH=--growth.
BENCH ?=
bench: setup $(KAFKA)/.ready  ## time every stage on large inputs, with Kafka's own tool and classes for comparison (docs/benchmarks.md)
	$(BIN)/python -m tests.bench --kafka $(KAFKA) $(BENCH)

# Options of `uv pip compile`, e.g. LOCK=--upgrade or LOCK='--upgrade-package pyarrow'.
LOCK ?=
lock: $(TOOLS_VENV)/.ready  ## write the lock files of requirements/; versions stay unless LOCK=--upgrade
	PATH="$(CURDIR)/$(TOOLS_VENV)/bin:$$PATH" requirements/lock.sh $(LOCK)

MAVEN_BILL := org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom -DoutputFormat=json -DoutputDirectory=$(CURDIR)/build/bill
bill: setup $(TOOLS_VENV)/.ready  ## write the bill of materials and docs/licences.md
	mkdir -p build/bill
	$(TOOLS_VENV)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/bill/python.json $(BIN)/python
	mvn --quiet --batch-mode -f conf/pom.xml $(MAVEN_BILL) -DoutputName=delta
	mvn --quiet --batch-mode -f conf/s3-pom.xml $(MAVEN_BILL) -DoutputName=s3
	$(BIN)/python requirements/bill_of_materials.py build/bill/python.json build/bill/delta.json build/bill/s3.json

# Options of pip-audit, e.g. AUDIT='--vulnerability-service osv'.
AUDIT ?=
audit: $(TOOLS_VENV)/.ready  ## look up known vulnerabilities of every locked package; exit 2 where they cannot be looked up
	$(TOOLS_VENV)/bin/python requirements/audit.py $(AUDIT)

lint: setup  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup  ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup  ## mypy, strict on all but the tests and the DAGs
	$(BIN)/mypy

imports: setup  ## import-linter: data goes one way, between packages and rooms
	$(BIN)/lint-imports

check: lint types imports  ## lint, types and imports: all checks that run no test

clean:  ## remove everything that the other targets made, virtual environments included
	rm -rf $(VENV) $(AIRFLOW_VENV) $(TOOLS_VENV) $(DOCS_VENV) $(FUZZ_VENV) .site $(JARS) $(JARS)-s3 $(KAFKA) $(DEMO) drills .bench .fuzz .simulated lake build dist *.egg-info spark-warehouse
