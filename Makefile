# Every target sets up what it needs: Python 3.10+ and make are all a fresh machine must have.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := schemas runtime streams executors deploy lab

.DEFAULT_GOAL := help
.PHONY: help demo tools test chaos mutants mlserver transformers-serve check bench lab docs sbom generate lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(VENV)/ok-local: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing overspill with its local stack into $(VENV) (minutes, 300 MB) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[local]'
	@touch $@

$(VENV)/ok-dev: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing overspill with its development tools into $(VENV) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[local,dev]'
	@touch $@ $(VENV)/ok-local

demo: $(VENV)/ok-local ## Start everything, send one of each kind of request, show where each went and why
	@$(BIN)/overspill demo

tools: $(VENV)/ok-dev ## Fetch what some tests run beside Python: promtool, prometheus, Chromium, kcat (Debian only)
	@test -e $(VENV)/ok-tools || { sh tests/tools.sh $(VENV)/tools && touch $(VENV)/ok-tools; } \
		|| echo "Tests that need what could not be fetched are skipped, and say so."
	@test -e $(VENV)/ok-manifests || { echo "Fetching what checks the manifests (270 MB) ..." \
		&& $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[manifests]' \
		&& touch $(VENV)/ok-manifests; } || echo "Tests of the manifests are skipped, and say so."

test: tools ## Run all tests: unit, property, and real Kafka (fetched the first time)
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests

chaos: $(VENV)/ok-dev ## Kill and break everything under load and judge what came of it (an hour; SCALE=0.1 is quick)
	@$(BIN)/python -m tests.chaos

mutants: $(VENV)/ok-dev ## Break one rule after another: each must turn its test red (half an hour)
	@$(BIN)/python -m tests.mutants

mlserver: $(VENV)/ok-dev ## Put MLServer beside the project, so that its tests run too (440 MB, three minutes)
	@$(PYTHON) -m venv $(VENV)-mlserver
	@$(VENV)-mlserver/bin/pip install -q --disable-pip-version-check mlserver==1.7.1 onnxruntime magika==1.0.3

transformers-serve: $(VENV)/ok-dev ## Put transformers serve beside the project, so that its tests run too (5.6 GB)
	@$(PYTHON) -m venv $(VENV)-transformers
	@$(VENV)-transformers/bin/pip install -q --disable-pip-version-check torch==2.15.0 gguf==0.19.0 \
		'transformers[serving]==5.24.0'

check: $(VENV)/ok-dev ## Lint, types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/lint-imports

bench: $(VENV)/ok-dev ## Measure the decision and the router beside a bare copy loop (minutes)
	@$(BIN)/overspill bench decide
	@$(BIN)/overspill bench router

TRACES ?= docs/examples/trace.csv docs/examples/trace.jsonl
lab: $(VENV)/ok-dev ## Prove on traces what routing saves (TRACES="a b" SEEDS=5, an hour)
	@$(BIN)/overspill lab $(TRACES:%=--trace %) --seeds $(or $(SEEDS),5) \
		--fleet docs/examples/fleet-cloud.toml --fleet docs/examples/fleet-article.toml@20

docs: $(VENV)/ok-dev ## Build the documentation as a site in build/site, its links checked
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@$(BIN)/mkdocs build --strict --quiet

sbom: $(VENV)/ok-dev ## Write what is in the image as CycloneDX into build/sbom.json
	@$(BIN)/python -m pip install -q --disable-pip-version-check cyclonedx-bom && mkdir -p build
	@$(BIN)/cyclonedx-py requirements --output-file build/sbom.json deploy/image/requirements.lock

generate: $(VENV)/ok-dev ## Write the documents that are made from declarations anew
	@$(BIN)/python -m deploy.generate

COMPILE := $(BIN)/uv pip compile -q --universal --no-emit-index-url --no-header --no-annotate
lock: $(VENV)/ok-dev ## Write constraints.txt and the image's hashes anew from what pyproject.toml allows
	@$(BIN)/python -m pip install -q uv
	@$(COMPILE) --python-version 3.10 --all-extras -o constraints.txt pyproject.toml
	@$(COMPILE) --python-version 3.13 --extra llama --extra tracing --generate-hashes -c constraints.txt \
		-o deploy/image/requirements.lock pyproject.toml
	@echo hatchling | $(COMPILE) --python-version 3.13 --generate-hashes -o deploy/image/build.lock -

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) $(VENV)-mlserver $(VENV)-transformers .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
