# make demo   a first result: plan an example, train a dispatcher, compare it with every rule, write a report
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
CLUSTER ?= gpu-mix-8
WAITING := fifo+wait,mru+wait,depth-first+wait,batch-fifo+wait
RULES := fifo,mru,depth-first,batch-fifo,$(WAITING),heavy-last-1,heavy-last-3,heavy-last-5
OTHERS := random,top-first,round-robin,shortest-first,longest-first,batch-mru,batch-depth,edf,eft,srw,heft-expected,heft-estimated
PLANNERS := heft,cpop,peft,lookahead,min-min,deft,tdca,perturbed

.PHONY: demo test test-browser chromium soak bench bench-check clean

demo: $(VENV)/.weft-demo
	@mkdir -p out
	$(WEFT) compare examples/pipeline.json --cluster $(CLUSTER) --schedulers $(PLANNERS)
	@echo
	$(WEFT) schedule examples/pipeline.json --cluster $(CLUSTER) --scheduler perturbed --out out/schedule.json --gantt out/gantt.png
	@echo
	$(WEFT) train conditional-quick --out out/run --resume
	@echo
	$(WEFT) evaluate conditional --schedulers out/run@best,ppo,$(RULES),$(OTHERS) --baseline heavy-last-1 \
	  --seeds 16 --set jobs=3000 --set p_c=0.25
	@echo
	@rm -rf out/sweep
	$(WEFT) evaluate conditional --schedulers out/run@best,ppo,$(RULES) --baseline heavy-last-1 \
	  --seeds 12 --set jobs=3000 --set p_c=0:1:0.25 --plot out/conditional.png --out out/sweep
	@echo
	$(WEFT) report out/sweep out/run --baseline heavy-last-1 --subject out/run@best --out out/report.html
	@echo
	@echo "out/schedule.json, out/gantt.png: the schedule of the example and its chart."
	@echo "out/conditional.png: the policy just trained (run@best) and the one that ships (ppo) against the rules."
	@echo "out/report.html: all of it in one page, with plans side by side and where the policy loses. Open it in a browser."

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
