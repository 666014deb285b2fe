# `make` says what there is. Every target sets the project up first; nothing is installed outside its folder, but for
# Java where there is none and the system's packages need no password (see scripts/java-home).
.DEFAULT_GOAL := help
.PHONY: help setup demo shell demo-shell test test-near test-full coverage seeds orders convergence backfill crashes ui demo-ui stop stack stack-stop lint format types bench bench-quick bench-formats bench-peers docs dist lock clean

help:  ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup:  ## Python packages, Java, jars: all the other targets need (done by them)
	@scripts/setup

demo: setup  ## feeds of all five formats, two of them through Airflow, then the receipts
	@scripts/in-demo python scripts/demo.py

# Two processes, each with whole files of tests: a Spark session is started once in each.
pytest = scripts/in-project python -m pytest -n $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder

test: setup  ## the tests of every promise, fourteen minutes in two processes (WORKERS=…)
	@$(pytest) $(PYTEST)

test-near: setup  ## before a commit: the tests that belong to what changed since origin/main (SINCE=commit)
	@near=$$(scripts/in-project python scripts/near_tests.py $(SINCE)) && \
		{ [ -z "$$near" ] || $(pytest) -m "not long" $$near $(PYTEST); }

test-full: setup  ## the second tier, two hours: every mechanism, format and failure; test-replay and so on: a part of it
	@PYTEST="$(PYTEST)" WORKERS="$(WORKERS)" scripts/in-project python scripts/second_tier.py

# Its parts, by subject. Each takes at most twelve minutes, and they can be run side by side.
test-units test-debezium test-formats test-convergence test-transactions test-dataworks test-schema test-replay test-promises \
test-late test-reloads test-operations test-crash test-paused test-scheduler test-stack test-cluster test-survival test-yarn \
test-page: test-%: setup
	@PYTEST="$(PYTEST)" WORKERS="$(WORKERS)" scripts/in-project python scripts/second_tier.py $*

coverage: setup  ## which lines `make test` runs in its own processes
	@$(pytest) --cov=include/tidemark --cov-report=term:skip-covered $(PYTEST)

seeds: setup  ## every format's generated hours against their truth, for ten seeds (SEEDS=…)
	@TIDEMARK_SEEDS=$(or $(SEEDS),10) scripts/in-project python -m pytest -m long tests/e2e/formats/test_seeds.py $(PYTEST)

orders: setup  ## more orders of hours, of the tests that run them in several
	@$(pytest) -m long --ignore tests/e2e/formats/test_seeds.py tests/e2e $(PYTEST)

convergence: setup  ## thousands of random histories of each format against the oracle (HISTORIES=… of each)
	@TIDEMARK_HISTORIES=$(or $(HISTORIES),3000) scripts/in-project python -m pytest -m long tests/convergence $(PYTEST)

backfill: setup  ## 48 hours of two feeds through Airflow, with failing hours and dying workers (HOURS=…)
	@TIDEMARK_BACKFILL_HOURS=$(or $(HOURS),48) scripts/in-project python -m pytest -m long tests/scheduler $(PYTEST)

crashes: setup  ## runs killed at any moment, fifty times (KILLS=…), and storage and catalog on their bad days
	@TIDEMARK_KILLS=$(or $(KILLS),50) scripts/in-project python -m pytest -n $(or $(WORKERS),2) -m long tests/crash $(PYTEST)

shell: setup  ## a shell in which every command that the documents and the program print runs as printed
	@scripts/in-project "$${SHELL:-sh}"

demo-shell: setup  ## the same on the demo's lake, and in its Airflow
	@scripts/in-demo "$${SHELL:-sh}"

ui: setup  ## Airflow with your feeds, on http://127.0.0.1:8080 (AIRFLOW_PORT=… for another port)
	@scripts/in-project python scripts/services.py start

demo-ui: setup  ## Airflow as the demo left it
	@scripts/in-demo python scripts/services.py start

stop:  ## stop what `make ui` or `make demo-ui` started
	@scripts/in-project python scripts/services.py stop
	@scripts/in-demo python scripts/services.py stop

stack: setup  ## docker-compose.yaml's services without Docker: Airflow, PostgreSQL, S3, a Spark cluster (Linux)
	@scripts/in-project python scripts/stack.py start

stack-stop:  ## stop what `make stack` started
	@scripts/in-project python scripts/stack.py stop

lint: setup  ## ruff (rules and format), mypy (strict), and deptry (every import has its dependency, and the reverse)
	@scripts/in-project ruff check .
	@scripts/in-project ruff format --check .
	@scripts/in-project mypy include/tidemark include/tidemark_samples dags plugins jobs scripts benchmarks
	@scripts/in-project deptry .

format: setup  ## let ruff format and sort
	@scripts/in-project ruff check --fix .
	@scripts/in-project ruff format .

bench-quick: setup  ## a small benchmark in three minutes: its ratios beside those that were kept
	@scripts/in-project python -m benchmarks.run --quick --output .tidemark/bench-quick

bench-formats: setup  ## each format's decode against its own floor, in ten minutes (FORMATS="ibm qlik": these)
	@scripts/in-project python -m benchmarks.formats $(FORMATS) $(BENCH)

bench-peers: setup  ## the same hour in other tools, each in an environment of its own (PEERS="dlt duckdb": these)
	@scripts/in-project python -m benchmarks.peers $(PEERS) $(BENCH)

bench: setup  ## the benchmark: Spark's floor, a hand-written MERGE, and this
	@scripts/in-project python -m benchmarks.run $(BENCH)

docs: setup  ## the references of feed files and of settings, made from the models
	@scripts/in-project python -m tidemark.feeds.reference
	@scripts/in-project python -m tidemark.feeds.settings_reference

dist: setup  ## what a cluster needs of Tidemark, in dist/: the wheel, an environment for drivers, the jars
	@scripts/in-project python scripts/dist.py

lock: setup  ## lock the newest packages pyproject.toml allows (see CONTRIBUTING.md)
	@.tools/uv/bin/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
		--no-header --quiet --upgrade --output-file requirements.txt

clean: stop stack-stop  ## remove what was made here, setup included
	rm -rf .venv .tools .tidemark .airflow dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
