# make demo and make test do all the set-up; `make native` builds the kernels in place for development.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find src native -type f -not -name '*.so' -not -path '*/__pycache__/*')

.PHONY: native
native:  ## kernels into src/sharpdnf, for PYTHONPATH=src
	cmake -S . -B build/dev -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE=$$(command -v $(PYTHON)) >/dev/null
	cmake --build build/dev -j 2
	cp build/dev/_native*.so src/sharpdnf/
