# SPDX-License-Identifier: MIT
# Short names for what Meson does in build/, build-install/, build-asan/ and build-tsan/.

PREFIX ?= /usr/local
MESON_ARGS ?=
SETUP := @sh tools/setup.sh
BUILD := @sh tools/build.sh build $(MESON_ARGS)

all: build

help:
	@echo 'make try      build the library and the command, and run an example'
	@echo 'make test     every test: plain, under ASan+UBSan, under TSan'
	@echo 'make          build everything in build/'
	@echo 'make lint     all checks of the sources and documents'
	@echo 'make format   let clang-format lay the sources out'
	@echo 'make matrix   the contract suite, one line per store and kind'
	@echo 'make bench    holdfast beside the raw limit'
	@echo 'make bench-peers  holdfast beside other libraries, on the same server'
	@echo 'make interop  holdfast beside other libraries that take the same locks'
	@echo 'make torture STORE=redis TIME=600  locks under faults, checked; all stores if none is named'
	@echo 'make storm STORE=redis TIME=600 SEED=1  random calls of the whole API, checked'
	@echo 'make torture-planted  locks that are wrong on purpose: each must be found'
	@echo 'make torture-peers TIME=60  the same faults for holdfast and for others'
	@echo 'make mutants SAMPLE=300 ONLY=src/core  small faults set in: which does no test notice?'
	@echo 'make asan     the tests under ASan+UBSan only'
	@echo 'make tsan     the tests under TSan only'
	@echo 'make install  the library and the command, to PREFIX=$(PREFIX); make uninstall'
	@echo 'make clean    remove what was built'

build:
	$(SETUP) build
	$(BUILD)

try:
	$(SETUP) build examples
	@TARGETS='examples/try cli/holdfast' sh tools/build.sh build $(MESON_ARGS)
	@build/examples/try

test:
	$(SETUP) build examples test mutants
	@sh tools/run-tests.sh plain asan tsan

asan tsan:
	$(SETUP) build examples test
	@sh tools/run-tests.sh $@

matrix:
	$(SETUP) build test
	$(BUILD)
	@build/tests/contract/contract --matrix

bench:
	$(SETUP) build bench
	$(BUILD)
	@build/bench/bench

bench-peers:
	$(SETUP) build bench interop
	$(BUILD)
	@python3 bench/peers/prepare.py build/peers
	@build/bench/bench --only redis_peers --peers build/peers
	@build/bench/bench --only zookeeper_peers --peers build/peers \
	    --json build/bench/results-zookeeper.json

interop:
	$(SETUP) build test interop
	$(BUILD)
	@sh tools/interop.sh

STORE ?= mem file flock redis redis-simple zookeeper
TIME ?= 60
SEED ?=
LEDGER ?=
torture:
	$(SETUP) build test
	$(BUILD)
	@status=0; for store in $(STORE); do \
	    python3 tests/torture/run.py --build build --store $$store --time $(TIME) \
	        $(if $(SEED),--seed $(SEED)) $(if $(LEDGER),--ledger $(LEDGER)) \
	        || status=1; done; \
	    python3 tests/torture/ledger.py; exit $$status

storm:
	$(SETUP) build test
	$(BUILD)
	@status=0; for store in $(STORE); do \
	    build/tests/storm/storm --store $$store --seconds $(TIME) --seed $(SEED) \
	        || status=1; done; exit $$status

torture-planted:
	$(SETUP) build test
	$(BUILD)
	@python3 tests/torture/planted/planted.py --build build

torture-peers:
	$(SETUP) build test evidence
	$(BUILD)
	@python3 tests/torture/evidence.py --build build --time $(TIME) \
	    --seed $(or $(SEED),1)

SAMPLE ?= 300
mutants:
	$(SETUP) build test mutants
	@/usr/bin/python3 tools/mutate/mutate.py --sample $(SAMPLE) --seed $(or $(SEED),1) \
	    $(if $(ONLY),--only $(ONLY))

lint:
	$(SETUP) build examples lint
	@sh tools/lint.sh

format:
	$(SETUP) lint
	@sh tools/sources.sh | xargs clang-format -i

# A build directory of its own, in which only what is installed is compiled.
INSTALL_ARGS = -Dwerror=false -Dtests=disabled -Dexamples=disabled -Dbench=disabled \
    -Dprefix=$(PREFIX) $(MESON_ARGS)
install:
	$(SETUP) install
	@[ ! -f build-install/build.ninja ] || \
	    meson configure build-install $(INSTALL_ARGS)
	@sh tools/build.sh build-install $(INSTALL_ARGS)
	@meson install -C build-install --no-rebuild
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

uninstall:
	@ninja -C build-install uninstall

clean:
	rm -rf build build-install build-asan build-tsan build-clang build-mutants

.PHONY: all help build try test asan tsan matrix bench bench-peers interop torture storm torture-planted torture-peers mutants lint format install uninstall clean
