# make demo   a first result: plan workflows, learn a policy for a stream of them, compare it with the rules, report
# make sample the demo's report and the picture, as kept in docs/ and shown by README.md
# make test   everything a change must pass
# make test-browser  the pages in headless Chromium; installs it if absent, as root
# make soak   the long proofs
# make bench  the published figures (NAME=... for one of them)
# make bench-check  whether weft still beats what it is measured against; appends to benchmarks/history.jsonl
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
WEFT := $(VENV)/bin/weft
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo sample test test-browser chromium soak bench bench-check clean

demo: $(VENV)/.weft-demo
	@WEFT=$(WEFT) sh examples/demo.sh

sample: demo
	@mkdir -p docs/sample
	$(WEFT) report out/stream out/plans out/policy --subject out/policy@best --title "weft: a sample report" --out docs/sample/report.html
	$(PY) -m benchmarks front

test: $(VENV)/.weft-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PY) -m pytest -n 2 -m "not slow"

test-browser: $(VENV)/.weft-browser
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || $(MAKE) --no-print-directory chromium
	WEFT_BROWSER=required $(PY) -m pytest tests/browser -rs

chromium:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing chromium, once ..."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; \
	else echo "test-browser needs chromium: apt-get install chromium, as root" >&2; exit 1; fi

soak: $(VENV)/.weft-test
	$(PY) -m pytest -n 2 -m slow

bench: $(VENV)/.weft-test
	$(PY) -m benchmarks $(NAME)

bench-check: $(VENV)/.weft-test
	$(PY) -m benchmarks check $(if $(ACCEPT),--accept "$(ACCEPT)")

$(PY):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.weft-demo: pyproject.toml constraints.txt | $(PY)
	@echo "installing weft into $(VENV), once ..."
	$(PIP) -e '.[plot,train]'
	@touch $@

$(VENV)/.weft-test: pyproject.toml constraints.txt | $(PY)
	@echo "installing weft and its test tools into $(VENV), once ..."
	$(PIP) -e '.[test]'
	@touch $@

$(VENV)/.weft-browser: $(VENV)/.weft-test
	@echo "installing playwright into $(VENV), once ..."
	$(PIP) -e '.[test,browser]'
	@touch $@

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
