# Each target creates and uses .venv; `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin
# Tests use one process per core, so each of them one BLAS thread.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Instruction-set levels of the core: native (the baseline and this machine's), or all.
LEVELS ?= native

.PHONY: demo test test-oldest test-with test-all gpu-test asan portability wheels coverage lint format bench speed gpu-bench docs clean

.venv/bin/python:
	$(PYTHON) -m venv .venv

NATIVE := CMakeLists.txt $(wildcard cmake/*.cmake src/mercer/core/native/*.cpp src/mercer/core/native/*.hpp src/mercer/core/native/include/mercer/*.hpp)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Without an environment of its own for each build, so that only what has changed is compiled, and
# without compiling every file of Python beforehand, most of which are never imported.
INSTALL := $(PIP) install --no-compile --no-build-isolation --editable
WITH_LEVELS := --config-settings=cmake.define.MERCER_LEVELS=$(LEVELS)

.venv/.build: pyproject.toml .venv/bin/python
	@echo "Installing what mercer needs and compiling its core: a minute or two, the first time."
	$(PIP) install --no-compile "scikit-build-core>=0.10" "nanobind>=2.4" cmake ninja
	@touch $@

.venv/.base: .venv/.build $(NATIVE)
	$(INSTALL) ".[cli]" $(WITH_LEVELS)
	@touch $@

.venv/.dev: .venv/.build $(NATIVE)
	$(INSTALL) ".[cli,test,lint]" $(WITH_LEVELS)
	@touch $@ .venv/.base

.venv/.docs: .venv/.build $(NATIVE)
	$(INSTALL) ".[docs]" $(WITH_LEVELS)
	@touch $@ .venv/.base

# The core at every level, for test-all.
.venv/.levels: .venv/.dev
	$(INSTALL) ".[cli,test,lint]" --config-settings=cmake.define.MERCER_LEVELS=all
	@touch $@

TORCH ?= torch
.venv/.gpu: .venv/.dev
	$(BIN)/python -m pip install --quiet "$(TORCH)" triton
	@touch $@

demo: .venv/.base
	$(BIN)/mercer demo

test: .venv/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto -q

# Which lines the tests run, on the terminal and in coverage.xml.
coverage: .venv/.dev
	$(BIN)/python -m pip install --quiet "pytest-cov>=5"
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto -q --cov=mercer --cov-report=xml --cov-report=term $(TESTS)

# The tests with the oldest version of each dependency that pyproject.toml allows.
PYTHON_OLDEST ?= python3.11
.venv-oldest/.dev: pyproject.toml tests/lower_bounds.py $(NATIVE)
	$(PYTHON_OLDEST) -m venv --clear .venv-oldest
	$(PYTHON_OLDEST) tests/lower_bounds.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/constraints.txt \
	  --editable ".[cli,plots,parquet,dask,test]" --config-settings=build-dir=build/oldest
	@touch $@

test-oldest: .venv-oldest/.dev
	$(ONE_THREAD) .venv-oldest/bin/python -m pytest -n auto -q

# The tests with another version of scikit-learn: make test-with SKLEARN=1.8
SKLEARN ?= 1.8
.venv-sklearn-%/.dev: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv .venv-sklearn-$*
	.venv-sklearn-$*/bin/python -m pip install --quiet --editable ".[cli,test]" \
	  "scikit-learn==$*.*" --config-settings=build-dir=build/sklearn-$*
	@touch $@

test-with: .venv-sklearn-$(SKLEARN)/.dev
	$(ONE_THREAD) .venv-sklearn-$(SKLEARN)/bin/python -m pytest -n auto -q

# The tests with tensors, which need torch: on the GPU, or on the host with Triton interpreted.
gpu-test: .venv/.gpu
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto -q $$(find tests -name 'test_*tensors.py')

# The tests of the core on modules built with the address and undefined-behaviour sanitizers.
# The next target that needs the package builds it anew, without them.
asan: .venv/.dev
	$(INSTALL) . --config-settings=cmake.define.MERCER_SANITIZE=ON --config-settings=build-dir=build/asan
	rm -f .venv/.base .venv/.dev .venv/.docs .venv/.levels
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
	  $(BIN)/python -m pytest -q -p no:cacheprovider tests/core tests/fuzz/test_native.py

# The core by every compiler that is supported and found, with warnings as errors, and its tests;
# for Windows and ARM compiled only (see docs/development.md).
portability: .venv/.dev
	$(BIN)/python .ci/portability.py

# The source distribution and the wheels that this machine can build, each tested: see .ci/wheels.py.
wheels: .venv/bin/python
	$(BIN)/python .ci/wheels.py $(PYTHONS)

# Tests that are run in several threads at once, too.
IN_THREADS := tests/kernels/test_contracts.py tests/operators tests/estimators/test_contracts.py

# Everything, with a soak of ten thousand fits, many more random kernels and files, an hour of fuzzing
# on two cores, and the core at every instruction-set level.
test-all: .venv/.levels test
	$(ONE_THREAD) $(BIN)/python -m pytest -q -m long tests
	MERCER_TEST_LENGTH=20 $(ONE_THREAD) $(BIN)/python -m pytest -n auto -q \
	  tests/core/test_fuzz.py tests/kernels tests/persistence tests/tables/test_readers.py
	MERCER_TEST_LENGTH=50 $(ONE_THREAD) $(BIN)/python -m pytest -n auto -q tests/hardening
	MERCER_FUZZ_SECONDS=900 $(ONE_THREAD) $(BIN)/python -m pytest -n auto -q tests/fuzz
	$(ONE_THREAD) $(BIN)/python -m pytest -q --parallel-threads=4 $(IN_THREADS)
	for level in python baseline x86-64-v3; do \
	  MERCER_ISA=$$level $(ONE_THREAD) $(BIN)/python -m pytest -n auto -q \
	    tests/expressions tests/operators tests/kernels || exit 1; done

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --level error
	$(BIN)/lint-imports

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.base
	$(BIN)/python benchmarks/gram.py
	$(BIN)/python benchmarks/matvec.py

# What became slower by more than a tenth, as a ratio to other libraries.
speed: .venv/.base
	$(BIN)/python benchmarks/watch.py

gpu-bench: .venv/.gpu
	$(BIN)/python benchmarks/gpu_products.py

docs: .venv/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv .venv-oldest .venv-sklearn-* docs/_build docs/gallery docs/api docs/generated build dist
