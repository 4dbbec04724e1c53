# make demo   a first result: compare planners on an example, draw the winner
# make test   everything a change must pass
# make soak   the long proofs
# make bench  the published figures (NAME=... for one of them)
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
WEFT := $(VENV)/bin/weft
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt
CLUSTER ?= gpu-mix-8
PLANNERS := heft,cpop,peft,lookahead,min-min,deft,tdca,perturbed

.PHONY: demo test soak bench clean

demo: $(VENV)/.weft-demo
	@mkdir -p out
	$(WEFT) compare examples/pipeline.json --cluster $(CLUSTER) --schedulers $(PLANNERS)
	@echo
	$(WEFT) schedule examples/pipeline.json --cluster $(CLUSTER) --scheduler perturbed --out out/schedule.json --gantt out/gantt.png
	@echo
	@echo "The schedule is in out/schedule.json, its Gantt chart in out/gantt.png."

test: $(VENV)/.weft-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PY) -m pytest -n 2 -m "not slow"

soak: $(VENV)/.weft-test
	$(PY) -m pytest -n 2 -m slow

bench: $(VENV)/.weft-test
	$(PY) -m benchmarks $(NAME)

$(PY):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.weft-demo: pyproject.toml constraints.txt | $(PY)
	@echo "installing weft into $(VENV), once ..."
	$(PIP) -e '.[plot]'
	@touch $@

$(VENV)/.weft-test: pyproject.toml constraints.txt | $(PY)
	@echo "installing weft and its test tools into $(VENV), once ..."
	$(PIP) -e '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
