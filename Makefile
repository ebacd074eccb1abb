# `make demo` and `make test` do all the set-up: a virtual environment in .venv, the build and the install.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find src native -type f -not -name '*.so' -not -path '*/__pycache__/*' 2>/dev/null)
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: help demo test lint bench bench-exact bench-neural bench-torch bench-sql bench-spark test-spark bench-network bench-serve reference cards docs screenshots wheel sanitize sanitize-threads fuzz native clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 16

$(VENV)/tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade "pip>=24"
	$(BIN)/pip install -q "scikit-build-core>=0.10" "nanobind>=2.4" cmake ninja
	@touch $@

# torch is named on its own so that pip finds a CPU build where there is one.
$(VENV)/dependencies: $(VENV)/tools
	$(BIN)/pip install -q "torch>=2.6,<2.14"
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; o = p["optional-dependencies"]; print("\n".join(r for r in p["dependencies"] + sum(o.values(), []) if not r.startswith("sharpdnf")))' > $(VENV)/requirements.txt
	$(BIN)/pip install -q -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/installed: $(VENV)/dependencies $(SOURCES)
	$(BIN)/pip install -q --no-build-isolation --no-deps --force-reinstall .
	@touch $@

# The demo needs the core alone, so that a first look does not wait for the tensor library.
$(VENV)/core: $(VENV)/tools $(SOURCES)
	$(BIN)/pip install -q --no-build-isolation .
	@touch $@

demo: $(VENV)/core  ## count the bundled examples, one with n=15,000
	$(BIN)/python examples/demo.py

test: $(VENV)/installed lint  ## the whole suite, types and style
	$(BIN)/python -m pytest -n 2 tests

lint: $(VENV)/dependencies
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror native/*/*.?pp

bench: $(VENV)/installed  ## engines: errors beside times, against one pass over the literals
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/circuits.py

bench-exact: $(VENV)/installed  ## exact answers beside pyganak and PySDD, and d4 and sharpSAT-TD where they are on PATH
	$(BIN)/pip install -q pysdd
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/auto.py

bench-neural: $(VENV)/installed  ## the network against the matrix-product peak
	$(BIN)/pip install -q torch_geometric
	$(BIN)/python benchmarks/neural.py

bench-torch: $(VENV)/installed  ## gradients in torch beside KLay, at equal formulas
	$(BIN)/pip install -q --no-deps klaycircuits==0.1.2
	$(BIN)/python benchmarks/gradients.py
	$(BIN)/python benchmarks/compiled.py

bench-sql: $(VENV)/installed  ## probabilistic SQL against the rewritten SQL itself, and every way against plain SQL
	$(BIN)/pip install -q tpchgen-cli
	$(BIN)/python benchmarks/sql.py
	$(BIN)/python benchmarks/sql_ways.py

bench-spark: $(VENV)/installed  ## counting on Spark beside DuckDB: lineage, shuffle and counting apart (CLAUSES=1000000)
	$(BIN)/python benchmarks/spark.py $(CLAUSES)

test-spark: $(VENV)/installed  ## all query shapes on Spark, and an executor that is killed in the middle of a job
	PYTHONPATH=tests $(BIN)/python -m pytest -p no:cacheprovider tests/test_sql_spark.py tests/spark_all.py

bench-network: $(VENV)/installed  ## networks: a million links in passes over them, grids exactly, rare failures
	$(BIN)/python benchmarks/network.py

reference: $(VENV)/installed  ## the pages of the documentation that are made from the program
	$(BIN)/python tools/reference.py

cards:  ## the tables of the model cards, from experiments/results/report.md
	$(PYTHON) tools/cards.py

docs: reference  ## the documentation as a site in site/: open site/index.html (strict: a broken link fails)
	$(BIN)/python tools/figures.py
	$(BIN)/zensical build --clean --strict
	$(BIN)/python -m pytest -n 0 tests/test_docs.py tests/test_reference.py

bench-serve: $(VENV)/installed  ## the service: 64 clients, mixed work, workers killed, memory (SECONDS=60)
	$(BIN)/python benchmarks/serve.py --seconds $(or $(SECONDS),60)

screenshots: $(VENV)/installed  ## the pictures of the page in docs/pictures, drawn in Chromium
	PYTHONPATH=tests $(BIN)/python tools/screenshots.py

wheel: $(VENV)/tools  ## dist/sharpdnf-*.whl, tried in an empty environment
	rm -rf dist build/wheel-check
	$(BIN)/pip wheel -q --no-build-isolation --no-deps -w dist .
	$(PYTHON) -m venv build/wheel-check
	build/wheel-check/bin/pip install -q dist/sharpdnf-*.whl
	cd build && wheel-check/bin/sharpdnf count ../examples/two_clauses.dnf

# The kernels under sanitizers, in a copy of the package of their own. The C++ runtime is preloaded too, or the sanitizer
# does not see exceptions. Markers choose the tests (pyproject.toml says what each means): timings mean nothing here.
SANITIZED = PYTHONPATH=build/$@/site PYTHONMALLOC=malloc LD_PRELOAD="$(foreach name,$(1) stdc++,$(shell c++ -print-file-name=lib$(name).so))"
ADDRESS := address,undefined
define build_sanitized
	$(BIN)/cmake -S . -B build/$@ -DSHARPDNF_SANITIZE=$(1) -DPython_EXECUTABLE=$(abspath $(BIN))/python >/dev/null
	$(BIN)/cmake --build build/$@ -j 2
	rm -rf build/$@/site && mkdir -p build/$@/site && cp -r src/sharpdnf build/$@/site/
	rm -f build/$@/site/sharpdnf/_native*.so && cp build/$@/_native*.so build/$@/site/sharpdnf/
endef

sanitize: $(VENV)/dependencies  ## native code under address and undefined-behaviour sanitizers
	$(call build_sanitized,$(ADDRESS))
	$(call SANITIZED,asan ubsan) \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	$(BIN)/python -m pytest -p no:cacheprovider -m "native and not speed" $(TESTS)

# Without random addresses, which old sanitizer run times do not take.
sanitize-threads: $(VENV)/dependencies  ## the threaded kernels under the thread sanitizer
	$(call build_sanitized,thread)
	$(call SANITIZED,tsan) TSAN_OPTIONS=halt_on_error=1:exitcode=66 \
	setarch -R $(BIN)/python -m pytest -p no:cacheprovider -m "threads and not speed" $(TESTS)

FUZZ_SECONDS ?= 60
fuzz: $(VENV)/installed  ## random inputs against oracles for FUZZ_SECONDS (FUZZ="engines --seed 7" chooses)
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS) $(FUZZ)

LAUNCHER := $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
native:  ## kernels and their stub into src/sharpdnf, for development with PYTHONPATH=src
	cmake -S . -B build/dev -DCMAKE_BUILD_TYPE=Release -DSHARPDNF_STUB=ON $(LAUNCHER) -DPython_EXECUTABLE=$$(command -v $(PYTHON)) >/dev/null
	cmake --build build/dev -j 2
	install build/dev/_native*.so src/sharpdnf/
	install -m 644 build/dev/_native.pyi src/sharpdnf/

clean:
	rm -rf $(VENV) build dist src/sharpdnf/_native*.so
