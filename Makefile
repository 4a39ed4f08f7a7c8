PYTHON ?= python

.PHONY: check coverage dist docs format quick release test slow browser processors sanitize bench three wide

check:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -n logical
	$(MAKE) wide

docs:  # the site, in build/site; pages of the reference are written to docs/reference
	$(PYTHON) -m sphinx -W --keep-going -q -c docs/site docs build/site

dist:  # sdist and wheel, twice, to the last byte the same, of what git tracks; needs the packages build and twine
	rm -rf build/dist build/again
	$(PYTHON) -m build -o build/dist > /dev/null
	$(PYTHON) -m build -o build/again > /dev/null
	diff -r build/dist build/again
	$(PYTHON) -m twine check --strict build/dist/*
	$(PYTHON) tests/release.py contents build/dist

CHECKS = check slow processors

release:  # all that is done before a tag; CHECKS= leaves out the tests, where they passed on this commit
	$(PYTHON) tests/release.py version
	@set -e; for target in $(CHECKS); do $(MAKE) $$target; done
	$(MAKE) dist
	$(PYTHON) tests/release.py try build/dist
	@version=$$($(PYTHON) tests/release.py version | cut -d ' ' -f 2); \
	echo "publish it by its tag: git tag -a v$$version -m \"liebody $$version\" && git push origin v$$version"

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	clang-format -i src/liebody/compiler/runtime/*.h src/liebody/interop/*.h

test:
	$(PYTHON) -m pytest -n logical

QUICK = dynamics groups layers text lowest
PACKAGES = build casadi cli gym imports interrupts jax layouts mjcf plot pool printers run sweep urdf view

quick:  # laws of mechanics, and what uses other packages: in a few minutes, with whatever versions are installed
	$(PYTHON) -m pytest -n logical $(patsubst %,tests/test_%.py,$(QUICK) $(PACKAGES))

wide:  # what `test` leaves out, and CI runs as well
	$(PYTHON) -m pytest -n logical -m "wide and not slow and not gpu and not browser"

slow:
	$(PYTHON) -m pytest -m "slow and not gpu and not browser"

browser:  # needs chromium
	$(PYTHON) -m pytest -m browser

processors:
	$(PYTHON) tests/processors.py

sanitize:  # needs gcc
	$(PYTHON) tests/sanitize.py

coverage:  # of branches; needs the package pytest-cov
	$(PYTHON) -m pytest -n logical --cov=liebody --cov-branch --cov-report=term-missing:skip-covered

bench:
	@set -e; for script in $$(grep -l __main__ benchmarks/*.py | grep -v /record.py); do echo "== $$script"; $(PYTHON) $$script; done

THREE = three@0.187.0
ESBUILD = esbuild@0.28.2
VIEW = $(CURDIR)/src/liebody/view

three:  # what pages of runs draw with: three.js as one file, of what scene.js uses, after its licence
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; cd "$$folder"; \
	npm install --silent --no-audit --no-fund $(THREE) $(ESBUILD); \
	cp $(VIEW)/three_entry.js entry.js; \
	npx esbuild entry.js --bundle --minify --format=iife --global-name=THREE --legal-comments=none \
	    --outfile=bundle.js; \
	{ echo "/* $(THREE)"; cat node_modules/three/LICENSE; echo "*/"; cat bundle.js; } > $(VIEW)/vendor/three.min.js
