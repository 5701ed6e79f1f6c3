# Every target does its own set-up. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CACHE := $(or $(FAIRLEAD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/fairlead)
TOOLS := $(CACHE)/tools
export PATH := $(TOOLS)/bin:$(PATH)
DENY_VERSION := 0.20.2
CYCLONEDX_VERSION := 0.5.9
FUZZ_VERSION := 0.13.2
MDBOOK_VERSION := 0.5.4
HYPERLINK_VERSION := 0.3.2
FUZZ_SECONDS ?= 60
KILLS ?= 500
MINUTES ?= 30
OBSERVE_MINUTES ?= 10
# Tests by name, so that every rung asks for the whole workspace: what features a crate has follows from the packages that are asked for, and what differs is compiled twice.
tests = $(foreach test,$(basename $(notdir $(1))),--test $(test))
BY_NAME := control/tests/postgres control/tests/influxdb e2e/tests/hubs e2e/tests/hubs_killed e2e/tests/commodore.rs e2e/tests/schemathesis.rs e2e/tests/gitops e2e/tests/vault e2e/tests/hosts e2e/tests/pods e2e/tests/monitoring e2e/tests/upgrades
UNIT_TESTS := $(call tests,$(filter-out e2e/% $(BY_NAME),$(wildcard */tests/*)))
E2E_TESTS := $(filter-out $(BY_NAME),$(wildcard e2e/tests/*))
# `delivery` has its agent in the test, so the version of a program changes nothing there.
COMPAT_TESTS := kubectl deploy
E2E_FIRST := $(filter %/kubectl %/deploy %/doctor %/drift %/failure.rs %/load.rs %/redirect.rs %/refused.rs %/registry.rs,$(E2E_TESTS))

.PHONY: help demo test without-kube unit lint dialer-alone postgres influxdb crash million e2e e2e-first e2e-others e2e-hubs hubs-killed monitoring observe traces commodore schemathesis kills gitea flux vault net net-boxes pods upgrades compat kube deny advisories sbom dist train static deb image-root release hosts fuzz bench bench-smoke bench-registry bench-delivery bench-hops ceilings soak docs clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-12s %s\n", $$1, $$2 }'

demo: ## a real cluster, a hub, an agent, and kubectl through the tunnel; Ctrl-C removes all
	@deploy/demo

test: ## every rung of the test ladder, except net, compat, commodore, schemathesis, kills, gitea, flux, vault, pods, upgrades, hosts, hubs-killed, observe, traces, crash, million, ceilings and dialer-alone
	@# Kubernetes builds beside the rungs that do without it: that takes minutes, once.
	@$(MAKE) --no-print-directory -j2 kube without-kube
	@$(MAKE) --no-print-directory e2e

without-kube:
	@$(MAKE) --no-print-directory -j1 lint unit postgres influxdb

unit: ## rungs 1 to 3: everything that needs no other program
	@# A test starts the examples of the dialer.
	cargo build --workspace --locked --examples
	cargo test --workspace --locked --lib --bins $(UNIT_TESTS)
	cargo test --workspace --locked --doc

lint: ## formatting, clippy and rustdoc with warnings as errors, the rules of CONTRIBUTING.md for words and commits
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --workspace $(call tests,$(BY_NAME)) --locked -- -D warnings
	cargo run --package xtask --locked --quiet -- lint
	@# There are no examples; who asks for them is given the crates as clippy has checked them.
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --lib --bins --examples --locked --quiet

dialer-alone: ## the dialer as others use it: its folder and that of `api`, copied, with both examples built (two minutes, once)
	rm -rf target/dialer-alone/copy && mkdir -p target/dialer-alone/copy
	cp -r api dialer Cargo.lock target/dialer-alone/copy
	sed '/^members = \[/,/^\]/c members = ["api", "dialer"]' Cargo.toml > target/dialer-alone/copy/Cargo.toml
	cd target/dialer-alone/copy && cargo build --package fairlead-dialer --lib --examples --target-dir ..

postgres: ## the store in a real PostgreSQL, unpacked from this Debian's packages (cached outside the checkout)
	@if e2e/postgres/build > /dev/null; then \
		cargo test --locked --workspace --test postgres -- --test-threads=4 && \
		cargo test --locked --workspace --test crash -- --postgres 3; \
	else \
		echo "SKIPPED: the store in PostgreSQL; e2e/postgres/build has told above why there is none"; \
	fi

influxdb: ## facts in a real InfluxDB, unpacked from this Debian's package (5 MB, cached outside the checkout)
	@if e2e/influxdb/build > /dev/null; then \
		cargo test --locked --workspace --test influxdb; \
	else \
		echo "SKIPPED: facts in InfluxDB; e2e/influxdb/build has told above why there is none"; \
	fi

crash: ## a hub killed KILLS times while many write to it, and backed up meanwhile, on each store; PostgreSQL killed; disks full and broken
	cargo build --locked --workspace --bin fairlead
	FAIRLEAD_E2E_KILLS=$(KILLS) cargo test --locked --workspace --test killed -- --nocapture --test-threads=1
	@if e2e/postgres/build > /dev/null; then \
		FAIRLEAD_E2E_KILLS=$(KILLS) cargo test --locked --workspace --test killed -- --nocapture --test-threads=1 --ignored; \
	else \
		echo "SKIPPED: a hub on PostgreSQL; e2e/postgres/build has told above why there is none"; \
	fi
	cargo test --locked --workspace --test crash
	cargo test --locked --workspace --test crash -- --postgres $$(( $(KILLS) / 5 ))

million: ## a million fact changes of one cluster displace no line of a person, on each store (seven minutes)
	FAIRLEAD_FACT_CHANGES=1000000 cargo test --locked --workspace --test store -- million --nocapture
	@if e2e/postgres/build > /dev/null; then \
		FAIRLEAD_FACT_CHANGES=1000000 cargo test --locked --workspace --test postgres -- million --nocapture; \
	else \
		echo "SKIPPED: the store in PostgreSQL; e2e/postgres/build has told above why there is none"; \
	fi

kube: ## build the real Kubernetes binaries (cached outside the checkout)
	@e2e/kube/build > /dev/null

e2e: kube ## rung 4: the built binary against a real kube-apiserver and kubectl
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --no-run $(call tests,$(E2E_TESTS)) --test hubs
	@# Most of their time they wait for processes and deadlines, so two groups of equal length run in parallel.
	@$(MAKE) --no-print-directory -j2 e2e-first e2e-others e2e-hubs monitoring

e2e-first: ; cargo test --locked --workspace $(call tests,$(E2E_FIRST)) -- --test-threads=$(or $(E2E_THREADS),2)
e2e-others: ; cargo test --locked --workspace $(call tests,$(filter-out $(E2E_FIRST),$(E2E_TESTS))) -- --test-threads=$(or $(E2E_THREADS),2)
e2e-hubs:
	@if e2e/postgres/build > /dev/null; then \
		cargo test --locked --workspace --test hubs && \
		cargo test --locked --workspace --test killed -- --ignored; \
	else \
		echo "SKIPPED: hubs on PostgreSQL, and several on one; e2e/postgres/build has told above why there is none"; \
	fi

hubs-killed: kube ## three hubs behind HAProxy with 30 agents under load: one killed each minute for MINUTES, then each restarted in turn
	@if e2e/postgres/build > /dev/null && e2e/haproxy/build > /dev/null; then \
		cargo build --locked --workspace --bin fairlead && \
		FAIRLEAD_E2E_MINUTES=$(MINUTES) cargo test --locked --workspace --test hubs_killed -- --ignored --nocapture; \
	else \
		echo "SKIPPED: three hubs behind HAProxy; e2e/postgres/build or e2e/haproxy/build has told above why"; \
	fi

commodore: ## Commodore, unmodified, against a hub: its lists, a catalog compiled and pushed (cached outside the checkout)
	@e2e/clients/build commodore > /dev/null
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test commodore -- --test-threads=2

schemathesis: ## requests of all kinds, made from the hub's own description of its API, on both stores, and from Lieutenant's (a quarter of an hour)
	@e2e/clients/build schemathesis > /dev/null
	@e2e/postgres/build > /dev/null
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test schemathesis -- --test-threads=1

kills: kube ## agent, runner, Helm and hub killed KILLS times while eight bundles change (3 to 5 s for each kill); the agent killed at each step of the journal; slow takeovers
	cargo build --locked --workspace --bin fairlead
	FAIRLEAD_E2E_KILLS=$(KILLS) cargo test --locked --workspace --test deploy -- kills --ignored --nocapture --test-threads=1
	cargo test --locked --workspace --test delivery -- --ignored --nocapture

flux: kube ## a real Flux and a real Argo CD, built from their Go modules: keys, components, installation with a real Gitea, adoption (minutes, once; cached outside the checkout)
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test gitops -- --nocapture

gitea: kube ## a Gitea built from its Go module: the contract of Git servers, repositories of tenants, thirty merge requests, bundles with webhooks and lost content (cached outside the checkout)
	@e2e/gitea/build > /dev/null
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test git_servers -- --ignored
	cargo test --locked --workspace --test deploy -- gitea maintenance --ignored --nocapture

vault: kube ## a Vault built from its Go module: each cluster reads its own secrets, and nobody else's (cached outside the checkout)
	@e2e/vault/build > /dev/null
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test vault -- --nocapture

monitoring: ## promtool on metrics and alerts, and the names in all queries, with the Prometheus of this Debian's package (19 MB, cached outside the checkout)
	@if e2e/prometheus/build > /dev/null; then \
		cargo build --locked --workspace --bin fairlead && \
		cargo test --locked --workspace --test monitoring; \
	else \
		echo "SKIPPED: metrics, alerts and dashboards with Prometheus; e2e/prometheus/build has told above why there is none"; \
	fi

observe: kube ## a real Prometheus scrapes three hubs and eight agents through load and faults for OBSERVE_MINUTES at least: each alert fires for its fault, and no other; dashboards are drawn (root)
	@e2e/prometheus/build > /dev/null
	cargo build --locked --workspace --bin fairlead
	@# The small disk of a hub is mounted in a namespace that ends with the test.
	FAIRLEAD_E2E_MINUTES=$(OBSERVE_MINUTES) unshare --mount --propagation private \
		cargo test --locked --workspace --test monitoring -- observe --ignored --nocapture

traces: kube ## a real OpenTelemetry collector, built from its Go module, gets one trace with spans of hub, agent and API server (cached outside the checkout)
	@e2e/otel/build > /dev/null
	@e2e/prometheus/build > /dev/null
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test monitoring -- traces --ignored --nocapture

upgrades: kube ## thirty agents upgraded in waves, and back from a broken version
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test upgrades

net: kube ## rung 4 over real networks: namespaces, proxies, bad links, faults; Linux, as root
	@e2e/net/setup
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test balancer
	@# At the end no secret of any test may be in anything that the tests have left.
	export FAIRLEAD_NET_LEFT=$$(mktemp -d) && trap 'rm -rf "$$FAIRLEAD_NET_LEFT"' EXIT && \
		cargo test --locked --workspace --test net -- --test-threads=1 $(NET) && \
		cargo test --locked --workspace --test net -- --ignored --nocapture left::

BOXES := proxy_with_a_password proxy_is_reached proxy_cuts nginx_with haproxy_with
net-boxes: kube ## proxies and load balancers for a quarter of an hour (FAIRLEAD_NET_BOX_SECONDS), all at the same time; Linux, as root
	@e2e/net/setup
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test net --no-run
	@# A process for each, because the tests of one process share a site.
	@$(MAKE) --no-print-directory -j$(words $(BOXES)) $(BOXES:%=net-box-%)

net-box-%:
	FAIRLEAD_NET_BOX_SECONDS=$${FAIRLEAD_NET_BOX_SECONDS:-900} cargo test --locked --workspace --test net -- --nocapture boxes::$*

pods: kube ## both charts, run by a kubelet of the tests: install, kubectl through them, an upgrade of the agent under load; Linux, as root
	cargo build --locked --workspace --bin fairlead
	cargo test --locked --workspace --test pods -- --test-threads=1

compat: ## rung 4 with the latest release, or the revision COMPAT_REF, as the hub, then as the agent; nothing without both
	@earlier=$$(e2e/compat/build $(COMPAT_REF)) || exit; \
	[ -n "$$earlier" ] || exit 0; \
	$(MAKE) --no-print-directory kube && \
	cargo build --locked --workspace --bin fairlead && \
	for side in HUB AGENT; do \
		env FAIRLEAD_$${side}_BIN=$$earlier cargo test --locked --workspace $(call tests,$(COMPAT_TESTS)) -- --test-threads=$(or $(E2E_THREADS),2) || exit; \
	done

deny: $(TOOLS)/bin/cargo-deny ## licences, bans and sources of dependencies, and the order of the rooms
	cargo deny check bans licenses sources

advisories: $(TOOLS)/bin/cargo-deny ## known vulnerabilities of dependencies (RustSec); fetches its database from GitHub, and fails without it
	@cargo deny fetch db > /dev/null 2>&1 || { \
		echo "the database of advisories cannot be fetched: nothing was checked. Run this where https://github.com/rustsec/advisory-db can be reached."; exit 1; }
	cargo deny check advisories

RELEASE_FILES := target/release-files
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^$$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
HOST_ARCH := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,amd64)
ARCHS ?= $(HOST_ARCH)
# The program of this machine writes the pages in the package and is in the image's files, so an old one would be taken silently.
ifneq (,$(filter deb image-root release hosts,$(MAKECMDGOALS)))
ifeq (,$(filter $(HOST_ARCH),$(ARCHS)))
$(error ARCHS="$(ARCHS)" leaves out this machine, whose program is needed as well: use ARCHS="$(HOST_ARCH) $(ARCHS)")
endif
endif
IMAGE_ROOT := target/image-root
static = $(RELEASE_FILES)/fairlead-$(VERSION)-linux-$(1)

sbom: $(TOOLS)/bin/cargo-cyclonedx ## a bill of materials (CycloneDX 1.5) of the program in target/release-files
	@mkdir -p $(RELEASE_FILES)
	@# The tool writes a file beside each crate; the one of the program has all of its dependencies.
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) cargo cyclonedx -q --manifest-path cli/Cargo.toml --format json --spec-version 1.5 \
		--no-build-deps --override-filename fairlead-sbom
	sed 's|file://$(CURDIR)|file://|g' cli/fairlead-sbom.json > $(RELEASE_FILES)/fairlead-$(VERSION).cdx.json
	@rm -f */fairlead-sbom.json */*/fairlead-sbom.json

# Benchmarks measure the program as it is shipped.
DIST = deploy/release/build $(HOST_ARCH) target/dist/fairlead

dist: ## the program as it is shipped, in target/dist
	$(DIST)

train: kube ## the profile that the shipped program is optimised by, made anew by the loads of fairlead-bench (x86-64)
	deploy/release/train

static: ## the static program for ARCHS (amd64, arm64; by default this machine's) in target/release-files
	for arch in $(ARCHS); do deploy/release/build $$arch $(RELEASE_FILES)/fairlead-$(VERSION)-linux-$$arch || exit; done

deb: static ## the Debian package of the static program in target/release-files
	for arch in $(ARCHS); do \
		RUN=$(call static,$(HOST_ARCH)) deploy/debian/build $(RELEASE_FILES)/fairlead-$(VERSION)-linux-$$arch $$arch $(RELEASE_FILES) || exit; \
	done

image-root: static ## the root file system of the image without Helm in target/image-root, for machines without a container builder
	rm -rf $(IMAGE_ROOT)
	deploy/image/root $(IMAGE_ROOT) $(call static,$(HOST_ARCH))

release: sbom static deb ## static program, Debian package, bill of materials and checksums in target/release-files
	cd $(RELEASE_FILES) && rm -f SHA256SUMS && sha256sum fairlead* > SHA256SUMS

hosts: kube deb image-root ## the files of a release on a host: empty chroot, image, systemd units, Debian package; Linux, as root
	FAIRLEAD_STATIC=$(call static,$(HOST_ARCH)) FAIRLEAD_IMAGE_ROOT=$(IMAGE_ROOT) \
		FAIRLEAD_DEB=$(RELEASE_FILES)/fairlead_$(VERSION)_$(HOST_ARCH).deb \
		cargo test --locked --workspace --test hosts -- --nocapture

fuzz: $(TOOLS)/bin/cargo-fuzz ## each fuzz target for FUZZ_SECONDS
	cd fuzz && cargo +nightly fuzz build && for target in $$(cargo fuzz list); do \
		echo "== $$target"; mkdir -p corpus/$$target; \
		cargo +nightly fuzz run $$target corpus/$$target seeds/$$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

bench-smoke: ## requests and bodies through the tunnel, direct access and a one-hop proxy: about three minutes
	cargo build --release --locked -p fairlead-bench
	$(DIST)
	target/release/fairlead-bench run --fairlead target/dist/fairlead --peers direct,proxy,fairlead --only get-1k-c1,get-1k-c16,get-1k-c128,down,up $(BENCH_ARGS)

bench: ## every scenario against Fairlead and its peers, in one run: figures, a table, plots
	cargo build --release --locked -p fairlead-bench
	$(DIST)
	target/release/fairlead-bench run --fairlead target/dist/fairlead $(BENCH_ARGS)

bench-registry: ## what the registry costs a hub with 1,000 and 10,000 clusters, and queries of a long history
	cargo build --release --locked -p fairlead-bench
	$(DIST)
	target/release/fairlead-bench registry --fairlead target/dist/fairlead $(BENCH_ARGS)

bench-delivery: ## what delivery costs a hub with 10,000 clusters and 50 bundles, and an agent in a real cluster
	cargo build --release --locked -p fairlead-bench
	$(DIST)
	target/release/fairlead-bench delivery --fairlead target/dist/fairlead $(BENCH_ARGS)

bench-hops: ## processor time of a forwarded request beside a direct one, with two hubs on one PostgreSQL
	cargo build --release --locked -p fairlead-bench
	$(DIST)
	target/release/fairlead-bench hops --fairlead target/dist/fairlead $(BENCH_ARGS)

ceilings: ## what a request makes hub and agent do, counted by callgrind, beside bench/ceilings.json; BENCH_ARGS=--update writes that anew (x86-64)
	cargo build --release --locked -p fairlead-bench -p fairlead
	target/release/fairlead-bench ceilings --fairlead target/release/fairlead --valgrind $$(bench/valgrind/build) $(BENCH_ARGS)

soak: ## an hour of requests through Fairlead, many broken off in the middle: nothing may leak
	cargo build --release --locked -p fairlead-bench
	$(DIST)
	target/release/fairlead-bench soak --fairlead target/dist/fairlead --minutes $(or $(SOAK_MINUTES),60)

docs: $(TOOLS)/bin/mdbook $(TOOLS)/bin/hyperlink ## the book in target/book, with its reference pages made anew and all links checked
	cargo build --locked --workspace --bin fairlead --bin fairlead-book
	@docs/build target/debug/fairlead target/debug/fairlead-book

clean: ## remove what was built here (the cache outside stays)
	cargo clean

$(TOOLS)/bin/cargo-deny:
	cargo install cargo-deny --version $(DENY_VERSION) --locked --root $(TOOLS)

$(TOOLS)/bin/cargo-cyclonedx:
	cargo install cargo-cyclonedx --version $(CYCLONEDX_VERSION) --locked --root $(TOOLS)

$(TOOLS)/bin/cargo-fuzz:
	cargo install cargo-fuzz --version $(FUZZ_VERSION) --locked --root $(TOOLS)

$(TOOLS)/bin/mdbook:
	cargo install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search --root $(TOOLS)

# Checks links and anchors of the HTML that readers get, offline; mdbook-linkcheck knows no anchors.
$(TOOLS)/bin/hyperlink:
	cargo install hyperlink --version $(HYPERLINK_VERSION) --locked --root $(TOOLS)
