# Two commands matter: `make demo` plays a recorded incident, `make test` runs the tests. Both install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test golden e2e check lint docs lock bench-inference bench parts clean

demo: $(VENV)/.installed
	$(BIN)/telltale demo

test: $(VENV)/.installed-dev parts
	$(BIN)/python -m pytest

golden: $(VENV)/.installed-dev ## write the texts in tests/golden anew; read the diff
	TELLTALE_GOLDEN=write $(BIN)/python -m pytest -q tests/functions/reports/test_golden.py

e2e: $(VENV)/.installed-dev parts ## needs KUBEBUILDER_ASSETS: a folder with etcd, kube-apiserver, …, kubectl and kwok
	$(BIN)/python -m pytest -m e2e tests/e2e

check: lint test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m docs.generate --check

docs: $(VENV)/.installed-dev ## the check catalogue and the settings table, from the code
	$(BIN)/python -m docs.generate

lock: ## the pinned locks, from pyproject.toml; they name no index
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml --group test --group dev -c requirements.lock -o requirements-dev.lock

bench-inference: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.inference --cross-validate

bench: $(VENV)/.installed-dev parts
	$(BIN)/python -m benchmarks

parts: ## Redis, Prometheus and Alertmanager for the tests, from the operating system's packages
	@tests/install-parts

# The checkout is put on the path as it is: nothing has to be built for that.
$(VENV)/.installed: requirements.lock pyproject.toml
	@tests/make-venv $(PYTHON) $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	echo "$(CURDIR)" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/telltale.pth"
	printf '#!%s\nimport sys\nfrom triggers.cli import main\nsys.exit(main())\n' "$(CURDIR)/$(BIN)/python" > $(BIN)/telltale
	chmod +x $(BIN)/telltale
	touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache demo-output
