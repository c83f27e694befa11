# The two commands a newcomer needs: `make run` and `make test`. Both do all set-up.

BUILD := build/release
JOBS  := $(shell nproc 2>/dev/null || echo 2)
export CCACHE_BASEDIR := $(CURDIR)

.PHONY: help run test build setup unit lint tidy format fuzz asan tsan bench install clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

run: build       ## set up, build, and let the embedded model answer a few questions
	$(BUILD)/fathom run models/nano --demo models/nano/demo.jsonl

test: setup      ## set up, build everything, run all tests
	@scripts/setup_clients.sh $(BUILD)
	cmake --preset release
	cmake --build --preset release -j $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

setup: ## install the distribution packages that are missing
	@scripts/setup.sh

build: setup     ## build the fathom binary and libfathom
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target fathom_all

unit: ## the inner loop: build and run the unit tests only
	cmake --preset release
	cmake --build --preset release -j $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -L unit

asan: setup      ## all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --test-dir build/asan --output-on-failure -j $(JOBS)

tsan: setup      ## the threaded parts under ThreadSanitizer
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS) --target unit_core unit_stream unit_scheduler unit_engine unit_http
	ctest --test-dir build/tsan --output-on-failure -R '^(ThreadPool|TokenStream|Engine|Scheduler|Http|ApiKey|KeyLimits|Metrics)'

fuzz: ## build the fuzz targets and run each for FUZZ_SECONDS (default 20)
	@scripts/setup.sh --fuzz
	@scripts/fuzz.sh

bench: ## kernel micro-benchmarks and `fathom bench` on V2-Lite dimensions
	@scripts/bench.sh

lint: ## check formatting and include directions
	@scripts/setup.sh --lint
	@scripts/lint.sh

tidy: ## the same, and clang-tidy over all sources (takes minutes)
	@scripts/setup.sh --lint
	@scripts/lint.sh --tidy

format: ## rewrite the sources with clang-format
	@scripts/setup.sh --lint
	@scripts/lint.sh --fix

install: build   ## install the binary, the library and the header (DESTDIR and PREFIX are honoured)
	cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

clean: ## remove the build folder
	rm -rf build
