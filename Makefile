# What a developer runs. "make" alone builds.

GO        ?= go
TESTFLAGS ?=
BENCHFLAGS ?=
# How long each fuzz target runs.
FUZZTIME  ?= 10s
# And those that read what somebody writes to be believed.
FUZZLONG  ?= $(FUZZTIME)
# FUZZ=blind is faster to build, for runs of a few seconds.
FUZZ      ?=
# -write writes the table of docs/guides/hooks.md; -talk logs what each product told its model.
HARNESSFLAGS ?=
# How many histories of reservations are looked at for an order.
HISTORIES ?= 200

# How many hours make loss searches each back end, and which: all of them if empty.
HOURS   ?= 1
SEARCH  ?= $(HOURS)h
# LEDGER=1 keeps each machine's decisions in a ledger in memory.
LEDGER ?=
# Where the search begins; 0 is another place each time.
SEED    ?= 0
BACKEND ?=

# How long make soak kills the daemon, and make reliability with it.
SOAK ?= 30m
RELIABILITY_SOAK ?= 3m

# What gated --version and gated status say: the version's tag and the commit, where this is
# a checkout of its own; without one Go's word for that. The same commit makes the same programs.
TAG    ?= $(shell [ -e .git ] && git describe --exact-match --tags --match 'v[0-9]*.[0-9]*.[0-9]*' 2>/dev/null)
COMMIT ?= $(shell [ -e .git ] && git describe --always --dirty=.dirty --abbrev=12 --exclude '*' 2>/dev/null)

.PHONY: nightly planted differential go build demo demo-web demo-command demo-libvirt demo-debian demo-ha needs test matrix mutants lint fuzz linear ledger ledger-faults loss loss-planted faults model vuln soak reliability bench year harness packages packages-check release clean

# Says what to do where there is no Go.
go:
	@command -v $(firstword $(GO)) >/dev/null || { echo "make: there is no $(firstword $(GO)) in PATH; gated needs Go 1.26 (https://go.dev/dl/)" >&2; \
		echo "  where it is installed: export PATH=\$$PATH:/usr/local/go/bin, or make GO=/path/to/go" >&2; exit 1; }

STAMP = -X gated/internal/base/version.tag=$(TAG) -X gated/internal/base/version.commit=$(COMMIT)

# Static programs in bin/, without tables for debuggers. Traces of a crash and CPU profiles need
# none of these.
build: go
	$(GO) build -trimpath -ldflags '-s -w $(STAMP)' -o bin/ ./cmd/...

# What gated does, shown with real guests, processes and keys.
demo: build
	./scripts/demo.sh

# What waits, in a browser: opsign web, and a yes in its terminal.
demo-web: build
	./scripts/demo-web.sh

# A command behind the gate: a database of a real PostgreSQL, on a cluster of its own.
demo-command: build
	./scripts/demo-command.sh

# The same story with real virtual machines and disks. It takes root, and a libvirtd of its own.
demo-libvirt: build
	./scripts/demo-libvirt.sh

# From apt install to apt purge on a Debian that boots for it in a container, and README's tour there. It takes root; the
# first run makes a tree of Debian in the user's cache. PARTS=package runs one part of tour, by_hand and package.
PARTS ?=
demo-debian: build
	GO='$(GO)' ./scripts/demo-debian.sh $(PARTS)

# A gate that outlives its host: two daemons, two PostgreSQL servers, and a simulated Proxmox VE. The active ones are killed.
demo-ha: go needs
	$(GO) test -count=1 -timeout 10m -v -run 'TestDemo$$' ./internal/test/ha

# The race detector looks at everything but SQLite's library, which is C that was
# turned into Go, with locks of its own, and what that has in the place of C's library; half of a run would be spent there.
# No package with generic code that others use can be left out so: the linker keeps one copy of a
# generic body, and without the detector's marks it would see races where a lock is.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false -gcflags=modernc.org/memory=-race=false

# Nothing here needs C but the race detector. With one setting for all, each package is compiled once.
export CGO_ENABLED = 0

# A program with the race detector sleeps a second when it ends, and tests start thousands.
export GORACE ?= atexit_sleep_ms=0

# What tests run against, as root or through sudo: libvirt with QEMU, PostgreSQL,
# btrfs, a C compiler. Without, the tests that need it are skipped and say so.
needs:
	@./scripts/needs.sh install || echo "without these, some tests are skipped" >&2

# Packages that start no goroutine, and have long tests. The race detector makes these three times slower. It sees the
# packages in the tests of those that use them, and in those of their own tests that start goroutines (TOGETHER).
# internal/test/arch looks for goroutines in both. Some of their tests run side by side (t.Parallel) and share what sync makes once.
ONE_GOROUTINE = authz base/op agents/glob host/life host/retention log/archive log/evidence people/policy test/acceptor test/promise test/vectors
# Tests of programs from outside: these are built as a release is, and the race detector would look at the tests alone.
# internal/test/arch looks for what runs in their own process.
OUTSIDE = test/arch test/crash test/harness
TOGETHER = ^(TestRevokesSideBySide|TestProofsFromFilesLeaveDecisionsAlone)$$
# The longest begin first, so that none of them runs alone at the end.
LONG = gated/internal/test/matrix gated/internal/host/daemon gated/cmd/gated
empty :=
ALONE = gated/internal/($(subst $(empty) ,|,$(ONE_GOROUTINE) $(OUTSIDE)))

# Every test, with the race detector where there is a C compiler, which it needs. make lint vets the code. The
# directories of the tests are the user's alone to write, because the daemon refuses others.
test: needs
	@umask 022; if command -v "$$($(GO) env CC)" >/dev/null 2>&1; then \
		all=$$($(GO) list ./...) || exit 1; code=0; set -x; \
		CGO_ENABLED=1 $(GO) test $(RACE) -vet=off -timeout 30m $(TESTFLAGS) $(LONG) $$(printf '%s\n' $$all | grep -vxE '$(ALONE)') || code=1; \
		$(GO) test -vet=off -timeout 30m $(TESTFLAGS) $$(printf '%s\n' $$all | grep -xE '$(ALONE)') || code=1; \
		CGO_ENABLED=1 $(GO) test $(RACE) -vet=off -run '$(TOGETHER)' $(TESTFLAGS) ./internal/host/life ./internal/host/retention || code=1; \
		exit $$code; \
	else \
		echo "no C compiler ($$($(GO) env CC)): the tests run without the race detector" >&2; \
		set -x; $(GO) test -vet=off -timeout 30m $(TESTFLAGS) ./...; \
	fi

# The adversarial matrix alone; docs/matrix.md says how to read it.
matrix:
	@out=$$(mktemp) || exit 1; \
	$(GO) test -count=1 -v $(TESTFLAGS) ./internal/test/matrix >"$$out" 2>&1; code=$$?; \
	if [ $$code = 0 ]; then grep -a '^matrix: ' "$$out"; else grep -avE '^ *(=== |--- PASS)' "$$out"; fi; \
	rm -f "$$out"; exit $$code

# Small faults in the code that decides, which the tests must find. Not in .ci/run; docs/design/mutants.md says how to read
# it. MUTANTS=-v prints each. TMPDIR is in memory, if it can be, because tests make thousands of databases.
MUTANTS ?=
mutants: needs
	@dir=$$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1; trap 'rm -rf "$$dir"' EXIT; \
	TMPDIR="$$dir" $(GO) run ./internal/test/mutants $(MUTANTS)

lint:
	@unformatted=$$(gofmt -l client cmd docs internal tools) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w on:" "$$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	GOOS=darwin $(GO) build -o /dev/null ./cmd/opsign
	GOOS=darwin $(GO) vet ./cmd/opsign
	cd tools && $(GO) vet ./... && $(GO) test ./...
	$(GO) mod verify
	cd tools && $(GO) mod verify

# Every fuzz target of the module, one after the other.
fuzz:
	./scripts/fuzz.sh $(FUZZTIME) $(FUZZLONG) $(FUZZ)

# Histories of reservations that have to have an order, in one process, over two members
# that take over from each other, and a tenth as many across kills of the daemon.
linear:
	$(GO) test -count=1 -v ./internal/test/linear -run '^(TestTheBookIsLinearizable|TestTakeoversAreLinearizable)$$' -histories $(HISTORIES)
	$(GO) test -count=1 -v ./internal/test/crash -run '^TestReservationsAcrossKills$$' -histories $$(( ($(HISTORIES) + 9) / 10 ))

# The suites of what decides, with a ledger below their stores: in memory, or with ENGINE=pg in PostgreSQL with a
# synchronous standby, which the run starts. Each test ends with a replay in an empty store, which must have the same rows.
ENGINE ?= memory
LEDGER_SUITES = ./internal/gate ./internal/nonce ./internal/log/audit ./internal/log/canary ./internal/log/evidence ./internal/log/follow ./internal/log/journal ./internal/log/witness ./internal/agents/agent \
	./internal/agents/reserve ./internal/reconcile ./internal/driver/memory ./internal/driver/scope ./internal/driver/trust ./internal/test/linear
ledger:
ifeq ($(ENGINE),pg)
	$(GO) test -count=1 -v -timeout 30m ./internal/test/ha -run '^TestSuitesOnPostgreSQL$$' -suites '$(LEDGER_SUITES)'
else
	GATED_TEST_LEDGER=$(ENGINE) $(GO) test $(TESTFLAGS) $(LEDGER_SUITES)
endif

# The primary of a real pair of PostgreSQL servers is killed COUNT times, and a tenth as often for good; then each other
# fault, COUNT in all. A line for each says how many groups were acknowledged, and how many of them were lost.
COUNT ?= 100
ledger-faults: needs
	$(GO) test -count=1 -v -timeout 0 ./internal/ledger/pg -run '^(TestKilledAndRestarted|TestKilledAndPromoted|TestNoFaultLosesWhatWasTold)$$' \
		-restarts $(COUNT) -promotions $$(( ($(COUNT) + 9) / 10 )) -rounds $$(( ($(COUNT) + 11) / 12 ))

# Sequences of unsigned steps that have to lose nothing: HOURS over each back end.
# A line for each is a row of the table in docs/reliability.md.
loss:
	$(GO) test -count=1 -v -timeout 0 ./internal/test/loss -run '^TestSearch$$' -backend '$(BACKEND)' -search $(SEARCH) -seed $(SEED) $(if $(LEDGER),-ledger)

# Each mend taken out in turn, and searched for until the oracle finds it. About
# twenty minutes.
loss-planted:
	$(GO) test -count=1 -v -timeout 0 ./internal/test/loss -run '^TestPlantedFaults$$' -planted

# Faults that each break one promise of the threat model, planted in turn: its tests have to find each (docs/design/promises.md).
# It takes root, as the rows of the matrix about other users do.
faults: go
	$(GO) test -count=1 -v -timeout 0 ./internal/test/promise -run '^TestPlantedFaults$$' -planted -plant '$(PLANT)'

# The model of the gate (docs/design/model.md), searched to its end, and its planted faults. It takes spin and a C compiler.
model: needs
	./model/check.sh

# What takes too long for each change: an hour or two. What fails does not keep the others from running. sudo make faults,
# make reliability and make year are for a night too.
nightly:
	$(MAKE) -k ANEW='./cmd/gated ./cmd/opsign' model mutants soak ledger-faults planted differential packages packages-check vuln

# Gates with planted faults, whose logs the model's relation refuses.
planted: go
	$(GO) test -count=1 -timeout 0 ./internal/test/acceptor -planted

# 10,000 generated questions: does gated accept what ssh-keygen -Y verify refuses?
differential: go
	GO='$(GO)' ./scripts/differential.sh

# Known vulnerabilities that the programs can reach, with the newest database; VULNDB is a version of golang.org/x/vulndb.
# A release is built with the Go that go.mod names, and that one is looked at.
VULNDB ?=
vuln: go
	./scripts/vuln.sh $(VULNDB)

# Random kills for so long; a line a minute, and the totals.
soak:
	@$(GO) test -count=1 -v -timeout 0 ./internal/test/crash -run '^TestRandomKills$$' -soak $(SOAK) -seed $$(date +%s)

# Every fault with every operation; writes the tables of docs/reliability.md.
# About twenty minutes.
reliability:
	./scripts/reliability.sh $(RELIABILITY_SOAK)

# How fast gated is, beside the limits of the machine (docs/benchmarks.md). At most four
# minutes. BENCHFLAGS="-only signed" measures one part; BENCHFLAGS=-small only checks
# that every part runs to its end, in less than a minute.
bench: build
	$(GO) run ./internal/test/bench/load -bin bin $(BENCHFLAGS)

# A simulated year of 10,000 decisions a day with archiving, in memory: an hour or two. YEARFLAGS="-days 60 -after 168h" is a
# part of it.
year: build
	$(GO) run ./internal/test/bench/load -bin bin -only year -dir /dev/shm $(YEARFLAGS)

# Codex, Gemini CLI and opencode from npm against the hooks, with loopback alone. The first
# run installs them into the user's cache; without npm it says so, and runs none.
harness:
	$(GO) test -count=1 -v -timeout 15m ./internal/test/harness -products $(HARNESSFLAGS)

# .deb and .rpm for amd64 and arm64, SBOMs and SHA256SUMS in dist/packages. The first build for
# another architecture compiles everything once more.
packages: go
	GO='$(GO)' TAG='$(TAG)' COMMIT='$(COMMIT)' ./contrib/packaging/build.sh

# What has to hold of the packages in dist/packages: contrib/packaging/check.sh says what.
packages-check:
	GO='$(GO)' TAG='$(TAG)' COMMIT='$(COMMIT)' ./contrib/packaging/check.sh

# The packages of a tag, with SHA256SUMS signed by RELEASE_KEY (docs/guides/release.md).
release: go
	@test -n '$(TAG)' || { echo "no tag vX.Y.Z names this commit" >&2; exit 1; }
	@want=$$($(GO) mod edit -json | sed -n 's/^\t"Toolchain": "\(.*\)",*$$/\1/p'); is=$$($(GO) env GOVERSION); \
		[ "$$is" = "$$want" ] || { echo "a release is built with $$want, and this is $$is: GOTOOLCHAIN=$$want make release" >&2; exit 1; }
	@case '$(COMMIT)' in *.dirty) echo "files differ from the commit" >&2; exit 1;; esac
	@test -n '$(RELEASE_KEY)' || { echo "say RELEASE_KEY=FILE, the private key or the public one of a key in ssh-agent" >&2; exit 1; }
	GO='$(GO)' TAG='$(TAG)' COMMIT='$(COMMIT)' RELEASE_KEY='$(RELEASE_KEY)' ./contrib/packaging/build.sh

clean:
	rm -rf bin dist
