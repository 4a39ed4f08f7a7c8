PYTHON ?= python

.PHONY: check format test slow processors bench

check:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -n logical

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	clang-format -i src/liebody/codegen/runtime/*.h

test:
	$(PYTHON) -m pytest -n logical

slow:
	$(PYTHON) -m pytest -m "slow and not gpu and not browser"

processors:
	$(PYTHON) tests/processors.py

bench:
	@set -e; for script in $$(grep -l __main__ benchmarks/*.py); do echo "== $$script"; $(PYTHON) $$script; done
