# make run, make test, make bench: everything else is cargo.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
SLUICE := $(TARGET)/release/sluice
XTASK := $(TARGET)/debug/xtask
STEP := .ci/step
# Tools of the tests that no package of the system holds.
TOOLS := $(TARGET)/tools
H2SPEC := github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
# A server that returns messages, made to be judged by Autobahn's cases; and what runs those cases.
ECHO := github.com/gorilla/websocket/examples/autobahn@v1.5.3
KOSOKU := kosoku==0.1.0
GRPC := google.golang.org/grpc/interop/client@v1.85.0 google.golang.org/grpc/interop/server@v1.85.0
TOMCAT := org.apache.tomcat.embed:tomcat-embed-core:10.1.34
SUITES := gate tls http2 gateway-go silly pingap infini

# Tests of the whole program, by file; they run against the release binary.
ACCEPTANCE := $(patsubst crates/acceptance/tests/%.rs,--test %,$(wildcard crates/acceptance/tests/*.rs))

# --workspace throughout: one set of features, so that no dependency is built twice.
# How long `make soak` goes on, in seconds.
SOAK ?= 3600

.PHONY: help run test audit soak floods bench release xtask overload

help:
	@echo "make run     build the release binary and start it on examples/quickstart.toml"
	@echo "make test    install what the tests need, then run them all"
	@echo "make bench   measure Sluice beside nginx and HAProxy, write bench/RESULTS.md; then run the suites"
	@echo "             of bench/suites with short runs (FULL=1: the published ones), reports in $(TARGET)/bench"
	@echo "make audit   have testssl.sh, sslyze and 120 broken handshakes look at TLS as it is by default (minutes),"
	@echo "             write bench/reports/audit.txt"
	@echo "make soak    mixed traffic, reloads and restarts for an hour (SOAK=seconds): memory, descriptors and"
	@echo "             threads must not grow; writes bench/reports/soak.md and the samples beside it"
	@echo "make floods  floods of frames and slow clients against Sluice and nginx (minutes): writes"
	@echo "             bench/reports/floods.md"
	@echo "make overload  offer three times what can be served, with and without limits, write bench/RESULTS.md"
	@echo "cargo xtask  tasks of the repository: tidy, generate, bench, gate"

run: release
	exec $(SLUICE) run -c examples/quickstart.toml

test:
	@$(STEP) "tools" .ci/tools nginx:nginx haproxy:haproxy wrk:wrk h2load:nghttp2-client nghttp:nghttp2-client \
		redis-server:redis-server valgrind:valgrind strace:strace faketime:faketime curl:curl \
		openssl:openssl chromium:chromium go:golang-go pip3:python3-pip node:nodejs php:php-cli javac:default-jdk-headless mvn:maven
	@$(STEP) "tools written in Go" .ci/go-tools $(abspath $(TOOLS)) $(H2SPEC) $(GRPC) $(ECHO)
	@$(STEP) "tools written in Python" .ci/python-tools $(abspath $(TOOLS)) $(KOSOKU)
	@$(STEP) "tools written in Java" .ci/maven-tools $(abspath $(TOOLS)) tomcat-java $(TOMCAT)
	@$(STEP) "format" $(CARGO) fmt --all --check
	@$(STEP) "clippy" $(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(STEP) "xtask" $(MAKE) --no-print-directory xtask
	@$(STEP) "tidy" $(XTASK) tidy
	@$(STEP) "unit tests and fuzz corpus" $(CARGO) test --locked --workspace --exclude sluice-acceptance
	@$(STEP) "release build" $(MAKE) --no-print-directory release
	@SLUICE_BIN=$(abspath $(SLUICE)) PATH="$(abspath $(TOOLS)):$$PATH" $(STEP) "acceptance tests" \
		$(CARGO) test --locked --workspace $(ACCEPTANCE)
	@SLUICE_BIN=$(abspath $(SLUICE)) $(STEP) "instruction gate" $(XTASK) gate

audit: release
	@$(STEP) "tools" .ci/tools testssl:testssl.sh openssl:openssl pip3:python3-pip
	@$(STEP) "packages of Python" .ci/python-packages $(abspath $(TOOLS))/audit .ci/audit-requirements.txt
	@$(STEP) "testssl.sh, sslyze, handshakes" .ci/audit $(abspath $(SLUICE)) $(abspath bench/reports/audit.txt) \
		$(abspath $(TOOLS))/audit

soak: release
	SLUICE_BIN=$(abspath $(SLUICE)) SOAK=$(SOAK) SOAK_REPORT=$(abspath bench/reports/soak.md) \
		$(CARGO) test --locked --workspace --test soak -- --nocapture

floods: release
	@$(STEP) "tools" .ci/tools nginx:nginx
	SLUICE_BIN=$(abspath $(SLUICE)) ATTACKS_REPORT=$(abspath bench/reports/floods.md) \
		$(CARGO) test --locked --workspace --test attacks a_table -- --nocapture

overload: release xtask
	$(XTASK) bench overload

# Every suite is run even if one before it failed.
bench: release xtask
	$(XTASK) bench
	$(XTASK) bench filters
	$(XTASK) bench pages
	$(XTASK) generate
	@failed=; for suite in $(SUITES); do \
		echo "== suite $$suite"; \
		$(SLUICE) bench --suite bench/suites/$$suite.toml $(if $(FULL),--full) \
			--output $(TARGET)/bench/$$suite || failed="$$failed $$suite"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

release:
	$(CARGO) build --locked --release -p sluice

xtask:
	$(CARGO) build --locked --workspace --bin xtask
