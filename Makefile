# What a developer runs. "make" alone builds.

GO        ?= go
TESTFLAGS ?=
BENCHFLAGS ?=
# How long each fuzz target runs.
FUZZTIME  ?= 10s
# And those that read what somebody writes to be believed.
FUZZLONG  ?= $(FUZZTIME)
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

.PHONY: go build demo demo-command demo-libvirt demo-debian demo-ha needs test test-race check-all matrix lint fuzz linear ledger ledger-faults loss loss-planted planted soak reliability reliability-kills reliability-calls bench harness packages packages-check release clean

# make -j would build the programs of the tests twice at once.
.NOTPARALLEL:

# Says what to do where there is no Go, or no room for what it builds.
go:
	@./scripts/room.sh
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
	@$(plain) -run 'TestDemo$$' -- ./internal/test/ha

# One configuration for every build here, and for those that tests start. So each package is compiled once, and a second
# checkout of the same commit compiles none. Nothing here needs C but the race detector. No test vets, because make lint does.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -vet=off $(filter-out -trimpath -vet=off,$(GOFLAGS))

# The race detector looks at everything but SQLite's library and what that has for C's library, which are C that was
# turned into Go, with locks of its own; half of a run would be spent there. No
# package with generic code can be left out so: the linker keeps one copy of a
# generic body, and without the detector's marks it would see races where a lock is.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false -gcflags=modernc.org/memory=-race=false

detects = cc=$$($(GO) env CC); command -v $${cc%% *} >/dev/null || { echo "make: the race detector needs a C compiler, and there is no $$cc" >&2; exit 1; }

# What tests run against, as root or through sudo: libvirt with QEMU, PostgreSQL,
# btrfs, a C compiler. Without, the tests that need it are skipped and say so.
needs:
	@./scripts/needs.sh install || echo "without these, some tests are skipped" >&2

# Runs go test, keeps its whole log, tells last what failed, and looks a second time at a test that failed alone (docs/testing.md).
# STRICT=-strict takes a skipped test for a failure. The tests start go by its name.
# It also builds once what tests run as programs, and hands that over. No result comes from go's cache, which does not know these programs.
# A package has no deadline that its tests share: it is stuck if no test of it began or ended for 15 minutes. go test's own is for a run that misses that.
# It ends if make is told to end: exec hands it make's SIGTERM, and for SIGINT and SIGKILL it watches make.
# LOG is the file of the whole log.
STRICT ?=
LOG ?= $(CURDIR)/bin/$@.log
suite = $(GO) build -o bin/suite ./internal/test/suite && \
	$(GO) build -buildvcs=false -o bin/test/plain/ ./cmd/... && $(GO) build -buildvcs=false -tags crashpoints -o bin/test/crashpoints/ ./cmd/gated && \
	export GATED_TEST_PROGRAMS='$(CURDIR)/bin/test' && umask 022 && exec env $(1) PATH="$$($(GO) env GOROOT)/bin:$$PATH" bin/suite -with $$PPID -memory $(STRICT) $(2) -log '$(LOG)' -- -count=1 -timeout 2h
# The same for tests that run long, or are told how long: it shows what they say as they say it.
plain = $(call suite,,-plain -stuck 0)

# Where property tests begin to draw. 0 is another place each time; a landing must not depend on luck.
export RAPID_SEED ?= 1

# Half of the long packages wait for processes and servers. So more of them run side by side than there are processors, and
# the longest begin first.
SIDE_BY_SIDE ?= 4
LONGEST = $(addprefix gated/internal/,ledger/pg test/crash test/matrix host/daemon test/ha) gated/cmd/gated $(addprefix gated/internal/,base/store host/hub/hubpg driver/proxmox driver/libvirt)

# Every test, without the race detector. The files of the tests are the user's alone to write,
# because the daemon refuses others.
test: go needs
	@$(suite) -p $(SIDE_BY_SIDE) $(TESTFLAGS) -- $(LONGEST) ./...

# Where goroutines share what decides, with the race detector. It sees twice as much of a processor's time go by.
# RACED='./...' is every test. The programs that tests start have no detector, so OUTSIDE has tests of nothing else, and tests in
# which one goroutine reads large documents for a minute. A test program that another one starts has the detector, and would
# sleep a second at its end.
RACED = $(addprefix ./internal/,ledger/pg host/daemon ledger ledger/lease ledger/memory base/store agents/reserve host/server gate reconcile agents/agent base/turns nonce notify/...)
OUTSIDE = ^(TestListsNeedLittleMemory|TestFullDisk|TestASecondSignalEndsTheStop|TestBodyLimit|TestBodyLimitWithoutALength|TestBodiesGiveTheirMemoryBack)$$
TOUCHED ?=
test-race: go needs
	@$(detects)
	@$(call suite,CGO_ENABLED=1 GORACE=atexit_sleep_ms=0) $(RACE) -skip '$(OUTSIDE)' -p $(SIDE_BY_SIDE) $(TESTFLAGS) -- $(RACED) $(TOUCHED)

# What .ci/run leaves out: it takes too long for each change. Run it before an issue is called resolved, and before a release.
check-all: go
	./.ci/run --rest

# The adversarial matrix alone; docs/matrix.md says how to read it.
matrix: go
	@$(suite) $(TESTFLAGS) -- ./internal/test/matrix

lint: go
	@unformatted=$$(gofmt -l client cmd docs internal tools) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w on:" "$$unformatted" >&2; exit 1; fi
	for script in .ci/run scripts/*.sh; do bash -n "$$script" || exit 1; done
	$(GO) vet ./...
	$(GO) vet -tags ledgerpg ./internal/ledger/ledgertest
	$(GO) tool staticcheck ./...
	GOOS=darwin $(GO) build -o /dev/null ./cmd/opsign
	GOOS=darwin $(GO) vet ./cmd/opsign
	cd tools && $(GO) vet ./... && $(GO) test ./...

# Every fuzz target of the module, one after the other.
fuzz: go
	@export PATH="$$($(GO) env GOROOT)/bin:$$PATH" GATED_MAKE_PID=$$PPID && exec ./scripts/fuzz.sh $(FUZZTIME) $(FUZZLONG)

# Histories of reservations that have to have an order, in one process, over two members
# that take over from each other, and a tenth as many across kills of the daemon.
linear: go
	@$(plain) -- ./internal/test/linear -run '^(TestTheBookIsLinearizable|TestTakeoversAreLinearizable)$$' -histories $(HISTORIES)
	@$(plain) -- ./internal/test/crash -run '^TestReservationsAcrossKills$$' -histories $$(( ($(HISTORIES) + 9) / 10 ))

# The suites of what decides, with a ledger below their stores: in memory, or with ENGINE=pg in PostgreSQL with a
# synchronous standby, which the run starts. Each test ends with a replay in an empty store, which must have the same rows.
ENGINE ?= memory
LEDGER_SUITES = ./internal/gate ./internal/nonce ./internal/log/... ./internal/agents/agent \
	./internal/agents/reserve ./internal/reconcile ./internal/driver/memory ./internal/driver/scope ./internal/driver/trust ./internal/test/linear
ledger: go
ifeq ($(ENGINE),pg)
	@$(plain) -- ./internal/test/ha -run '^TestSuitesOnPostgreSQL$$' -suites '$(LEDGER_SUITES)'
else
	@$(call suite,GATED_TEST_LEDGER=$(ENGINE)) $(TESTFLAGS) -- $(LEDGER_SUITES)
endif

# The primary of a real pair of PostgreSQL servers is killed COUNT times, and a tenth as often for good; then each other
# fault, COUNT in all. A line for each says how many groups were acknowledged, and how many of them were lost.
COUNT ?= 100
ledger-faults: go needs
	@$(plain) -timeout 0 -- ./internal/ledger/pg -run '^(TestKilledAndRestarted|TestKilledAndPromoted|TestNoFaultLosesWhatWasTold)$$' \
		-restarts $(COUNT) -promotions $$(( ($(COUNT) + 9) / 10 )) -rounds $$(( ($(COUNT) + 11) / 12 ))

# Sequences of unsigned steps that have to lose nothing: HOURS over each back end.
# A line for each is a row of the table in docs/reliability.md.
loss: go
	@$(plain) -timeout 0 -- ./internal/test/loss -run '^TestSearch$$' -backend '$(BACKEND)' -search $(SEARCH) -seed $(SEED) $(if $(LEDGER),-ledger)

# Each mend taken out in turn, and searched for until the oracle finds it. About
# twenty minutes.
loss-planted: go
	@$(plain) -timeout 0 -- ./internal/test/loss -run '^TestPlantedFaults$$' -planted

# Each fault of a table in turn, with which tests of what decides have to fail (docs/testing.md).
planted: go needs
	@$(detects)
	@$(plain) -timeout 0 -- ./internal/test/suite -run '^TestPlantedFaults$$' -planted -detector='$(RACE)'

# Random kills for so long; a line a minute, and the totals.
soak: go
	@$(plain) -timeout 0 -- ./internal/test/crash -run '^TestRandomKills$$' -soak $(SOAK) -seed $$(date +%s)

# Every fault with every operation; writes the tables of docs/reliability.md when all of the tests have passed.
# About twenty minutes.
reliability: reliability-kills reliability-calls
	GO='$(GO)' ./scripts/reliability.sh $(^:%=bin/%.log)
reliability-kills: go
	@$(plain) -timeout 0 -- ./internal/test/crash -run '^(TestCrashMatrix|TestRandomKills)$$' -cells all -soak $(RELIABILITY_SOAK)
reliability-calls: go
	@$(plain) -timeout 0 -p 1 -- ./internal/base/store ./internal/test/faults ./internal/host/daemon \
		-run '^(TestEveryCallFails|Test(Decisions|Restore)WhereEveryCallFails|TestFullDisk)$$'

# How fast gated is, beside the limits of the machine (docs/benchmarks.md). At most four
# minutes. BENCHFLAGS="-only signed" measures one part; BENCHFLAGS=-small only checks
# that every part runs to its end, in less than a minute.
bench: build
	@$(GO) build -o bin/suite ./internal/test/suite && exec bin/suite -script -with $$PPID -- $(GO) run ./internal/test/bench/load -bin bin $(BENCHFLAGS)

# Codex, Gemini CLI and opencode from npm against the hooks, with loopback alone. The first
# run installs them into the user's cache; without npm it says so, and runs none.
harness: go
	@$(plain) -- ./internal/test/harness -products $(HARNESSFLAGS)

# .deb and .rpm for amd64 and arm64, SBOMs and SHA256SUMS in dist/packages. The first build for
# another architecture compiles everything once more; ARCH=amd64 FORM=deb makes that one alone.
ARCH ?=
FORM ?=
packages: go
	GO='$(GO)' TAG='$(TAG)' COMMIT='$(COMMIT)' ./contrib/packaging/build.sh $(if $(ARCH),-archs '$(ARCH)') $(if $(FORM),-formats '$(FORM)')

# What has to hold of the packages in dist/packages: contrib/packaging/check.sh says what.
packages-check:
	GO='$(GO)' TAG='$(TAG)' COMMIT='$(COMMIT)' ./contrib/packaging/check.sh

# The packages of a tag, with SHA256SUMS signed by RELEASE_KEY (docs/guides/release.md).
release: go
	@test -n '$(TAG)' || { echo "no tag vX.Y.Z names this commit" >&2; exit 1; }
	@case '$(COMMIT)' in *.dirty) echo "files differ from the commit" >&2; exit 1;; esac
	@test -n '$(RELEASE_KEY)' || { echo "say RELEASE_KEY=FILE, the private key or the public one of a key in ssh-agent" >&2; exit 1; }
	GO='$(GO)' TAG='$(TAG)' COMMIT='$(COMMIT)' RELEASE_KEY='$(RELEASE_KEY)' ./contrib/packaging/build.sh

clean:
	rm -rf bin dist
