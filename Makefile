# Everything here needs Go and make; `make ci` needs git, a C compiler, both MPIs and Chromium as well.
GO ?= go
BIN := bin/gpipebench

# The experiments with a command of their own: others are run by another's.
EXPERIMENTS := $(filter-out $(shell sed -nE 's/.*\{ID: "([^"]+)".* Command: .*/\1/p' experiments/*/*.go), \
	$(shell sed -n 's/^experiment: //p' experiments/*/*/spec.yaml))

# The papers whose experiments are not those of reproduce.
PAPERS := $(filter-out gpipe,$(patsubst experiments/%/claims.yaml,%,$(wildcard experiments/*/claims.yaml)))

.PHONY: build playground corpus icons emoji test ci long golden race mpi mpi-ompi mpi-mpich tools lint deep deep-shard check bench reproduce report check-report check-playground playground-speed reference verify clean $(EXPERIMENTS) $(PAPERS)

build:
	$(GO) build -buildvcs=auto -o $(BIN) ./cmd/gpipebench

# The page in which networks train, as files that any server of files serves, and the program with
# these in it, which gpipebench playground serves.
SITE := playground/site
playground:
	rm -rf $(SITE)
	mkdir -p $(SITE)
	GOOS=js GOARCH=wasm $(GO) build -trimpath -ldflags "-s -w" -o $(SITE)/engine.wasm ./playground/engine
	install -m 644 playground/page/* $(addprefix simulate/schedulepage/,schedules.js pictures.js explorer.js schedules.css) "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" $(SITE)
	@size=$$(cat $(SITE)/* | wc -c); zipped=$$(for f in $(SITE)/*; do gzip -9 -c $$f; done | wc -c); \
		echo "$(SITE): $$size bytes, $$zipped by gzip -9"; \
		test $$size -le 15000000 -a $$zipped -le 5000000 || { echo "playground: want at most 15000000 bytes, 5000000 by gzip -9"; exit 1; }
	@! GOOS=js GOARCH=wasm $(GO) list -deps ./playground/engine | grep -E '^gpipebench/(experiments|lab|train|simulate|cmd)|plot|font' || \
		{ echo "playground: want none of these in the engine"; exit 1; }
	$(GO) build -buildvcs=auto -tags playground -o $(BIN) ./cmd/gpipebench

# Tests in three tiers; docs/CONTRIBUTING.md says what is in which. The short tests, on this
# machine's best kernels, are what a person waits for.
test:
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) test -vet=off -short -timeout 30m ./...

ci: lint long golden race mpi check-report check-playground

# What the short tests leave out.
long: tools
	$(GO) test -vet=off -timeout 30m $$(bin/longtests)

# One hash on every processor: nothing that decides bits is fused, and trainings whose weights'
# SHA-256 is published, and the functions of math that they need, end alike on each profile of
# kernels (this machine's best, AVX2, portable Go), where the compiler may fuse (GOAMD64=v3), in
# WebAssembly, and in an emulator of arm64, on NEON, whose kernels are compared with their
# definitions there, and portable.
HASHED := ./train/golden ./internal/kernel/exactmath
LIBRARY := ./nn/... ./gpipe/... ./models/... ./datasets/...
golden: tools
	$(GO) test -C tools ./fused
	bin/fused $(LIBRARY)
	$(GO) test -vet=off $(HASHED)
	GODEBUG=cpu.avx512f=off $(GO) test -vet=off $(HASHED)
	$(GO) test -vet=off -short -tags purego $(HASHED)
	GOAMD64=v3 $(GO) test -vet=off -short $(HASHED)
	GOOS=js GOARCH=wasm $(GO) vet ./playground/engine
	GOOS=js GOARCH=wasm $(GO) build $(LIBRARY) ./playground/...
	GOOS=wasip1 GOARCH=wasm $(GO) test -vet=off -exec "$(CURDIR)/bin/wazero run -mount=/:/" $(HASHED)
	@if command -v qemu-aarch64 >/dev/null; then set -ex; $(ON_ARM64) $(HASHED); \
		$(ON_ARM64) -tags purego -run 'Everywhere|Golden/(from-go|lm|gnmt|resnet|ssd)$$' $(HASHED); \
		$(ON_ARM64) -short -run 'Contract|RoundsOnce' ./internal/kernel; \
	else echo "golden: arm64 skipped: qemu-aarch64 is missing (Debian: qemu-user)"; test "$$CI" != true; fi

ON_ARM64 := GOARCH=arm64 CGO_ENABLED=0 $(GO) test -vet=off -exec qemu-aarch64

# The race detector, which needs cgo and cannot see into assembly, over tests of what shares memory.
RACED := ^(TestG1|TestG1Replicas|TestGatherTiedBF16|TestReductionsOfAStep|TestWideBatchNormInProcesses|TestReplicaFailsBeforeAMeeting|TestProcesses|TestProcessesFail|TestProcessesLose|TestReplicasInProcesses|TestAskToStop|TestLostInEachPhase|TestPanicInAStage|TestTokenOutside|TestCancelledContext|TestFailureOfAReplica|TestEvaluateReplicas|TestTimelineOfProcesses|TestChannels|TestTCP|TestUnix|TestFail|TestFaults|TestStrangers|TestWire|TestLostWhileMeeting|TestLeaveEarly|TestRankComesTwice|TestThreads|TestThreadsOfRun|TestDividedStacks|TestDividedEvaluation)$$
race:
	@for t in $$(echo '$(RACED)' | tr -d '^()$$' | tr '|' ' '); do \
		grep -rqs --include='*_test.go' "^func $$t(" gpipe nn/program || { echo "race: there is no $$t"; exit 1; }; done
	CGO_ENABLED=1 $(GO) test -vet=off -race -tags purego -short -timeout 30m -run '$(RACED)' ./gpipe ./gpipe/transport/... ./nn/program

# The transport over MPI, with each MPI that is installed: the conformance suite, and
# trainings in processes that mpirun starts. With MPI=required, as CI has it, an MPI that
# is missing is a failure.
MPI ?= $(if $(filter true 1,$(CI)),required)
mpi: mpi-ompi mpi-mpich

mpi-ompi: TAG = mpi
mpi-mpich: TAG = mpich
mpi-ompi mpi-mpich: mpi-%:
	@if pkg-config --exists $* 2>/dev/null && command -v mpirun >/dev/null; then set -e; \
		export CGO_ENABLED=1; \
		$(GO) vet -tags $(TAG) ./gpipe/transport/mpi/... ./cmd/gpipebench; \
		$(GO) test -count=1 -vet=off -tags $(TAG) ./gpipe/transport/mpi; \
		$(GO) test -count=1 -vet=off -parallel 4 -tags $(TAG) ./cmd/gpipebench -run TestTransportMPI; \
	else echo "$@: $(if $(filter required,$(MPI)),failed,skipped): pkg-config, its package $* or mpirun is missing (Debian: pkg-config libopenmpi-dev libmpich-dev)"; \
		test "$(MPI)" != required; fi

# staticcheck, the module that uses this one as a library, offline, and that generated assembly is
# what its generator makes. The tools are a module of their own, whose go.sum pins them.
tools:
	$(GO) build -C tools -o ../bin/ tool ./longtests ./fused
lint: tools
	$(GO) vet -tags purego ./internal/kernel
	bin/staticcheck ./...
	GOOS=js GOARCH=wasm bin/staticcheck ./playground/engine
	cd browser && $(GO) vet ./... && ../bin/staticcheck ./...
	cd examples/outside && export GOPROXY=off && $(GO) vet ./... && $(GO) test -vet=off ./... && ../../bin/staticcheck ./...
	$(GO) generate ./internal/kernel
	git diff --exit-code -- internal/kernel

# What takes minutes, in shards of at most four; deep-shard runs the one that the commit's tree
# chooses. A shard 2of4 of mutants has every fourth mutant, from the second.
DEEP := $(foreach i,1 2 3 4,mutants-$(i)of4) $(foreach i,1 2 3 4,forgeries-$(i)of4) $(foreach i,1 2 3 4,specs-$(i)of4) \
	$(foreach i,1 2 3 4,faults-$(i)of4) trainings-1of1 avx2-1of1 neon-1of2 neon-2of2 purego-1of2 purego-2of2 race-1of2 race-2of2 $(foreach i,1 2 3 4,fuzz-$(i)of4) systems-1of2 systems-2of2 firefox-1of1
deep: $(DEEP:%=deep-%)
deep-shard:
	@set -- $(DEEP); shift $$((0x$$(git rev-parse 'HEAD^{tree}' | cut -c1-8) % $$#)); \
	echo "shard $$1"; $(MAKE) "deep-$$1"

DEEPLY = GPIPEBENCH_DEEP=1 GPIPEBENCH_SHARD=$(subst of,/,$*) $(GO) test -vet=off -timeout 60m
deep-mutants-%:
	$(DEEPLY) ./gpipe -run Mutants
deep-specs-%: tools
	$(DEEPLY) $$(bin/longtests -deep experiments)
deep-forgeries-%: tools
	$(DEEPLY) $$(bin/longtests -deep lab)
deep-faults-%: tools
	$(DEEPLY) $$(bin/longtests -deep cmd)
deep-trainings-%: tools
	$(DEEPLY) $$(bin/longtests -deep train simulate)
# Full covers on the other profiles of kernels.
COVERED := ./gpipe ./gpipe/reduction ./nn/... ./models/... ./internal/kernel ./train/golden
deep-avx2-%:
	GODEBUG=cpu.avx512f=off $(DEEPLY) -skip Mutants $(COVERED)
# Of what is emulated, the comparison with the definitions takes half of the time.
deep-neon-1of2:
	cd internal/kernel/asm && $(GO) test -count=1 ./neon
	$(ON_ARM64) -timeout 30m -run '^TestContract$$' ./internal/kernel
deep-neon-2of2:
	$(ON_ARM64) -timeout 30m -skip '^TestContract$$' ./internal/kernel
deep-purego-1of2:
	$(DEEPLY) -skip Mutants -tags purego ./gpipe
deep-purego-2of2:
	$(DEEPLY) -skip Mutants -tags purego $(filter-out ./gpipe,$(COVERED))
deep-race-1of2:
	CGO_ENABLED=1 $(DEEPLY) -race -skip Mutants -tags purego -short ./gpipe ./gpipe/transport/... ./nn/program
deep-race-2of2:
	CGO_ENABLED=1 $(GO) test -vet=off -race -tags purego -short -timeout 60m ./train ./lab/trained
# Every fuzz target for some seconds. On a busy machine go test may say of the end of these that a
# deadline was exceeded, as a failure without an input.
deep-fuzz-%:
	@set -e; i=0; grep -rHE '^func Fuzz' --include='*_test.go' . | sed -E 's/^(.*)\/[^/]*:func (Fuzz[A-Za-z0-9_]*).*/\1 \2/' | sort | while read -r package target; do \
		i=$$((i+1)); test $$((i % $(word 2,$(subst of, ,$*)))) = $$(($(word 1,$(subst of, ,$*)) - 1)) || continue; \
		said=$$($(GO) test -vet=off $$package -run '^$$' -fuzz "^$$target\$$" -fuzztime 5s 2>&1) && { echo "$$said" | tail -1; continue; }; \
		echo "$$said"; echo "$$said" | grep -q 'context deadline exceeded' && ! echo "$$said" | grep -q 'Failing input' || exit 1; done

# The program built for other systems, and vet of the packages that have files for some of
# them only: this system compiles those of its own.
deep-systems-1of2: SYSTEMS := windows/amd64 darwin/arm64
deep-systems-2of2: SYSTEMS := freebsd/amd64 linux/arm64
deep-systems-%:
	@set -e; export CGO_ENABLED=0; \
	each() { for s in $(SYSTEMS); do GOOS=$${s%/*} GOARCH=$${s#*/} "$$@" || { echo "$$s: failed"; exit 1; }; done; }; \
	each $(GO) build -o /dev/null ./cmd/gpipebench; \
	each $(GO) vet $$(each $(GO) list -f '{{if .IgnoredGoFiles}}{{.ImportPath}}{{end}}' ./... | sort -u)

# The playground in Firefox.
deep-firefox-%: playground
	GPIPEBENCH_DEEP=1 $(GO) test -C browser -count=1 -run Firefox ./...

# That training does not depend on K, and what it does on M, at the smoke
# profile; a verdict for each claim from the reference.
check: build
	$(BIN) consistency --profile smoke
	$(BIN) verify

# Adds what it measures to records/bench.jsonl in OUT. For the table in
# results/reference/README.md: make bench OUT=results/reference reference, on a quiet machine.
OUT ?= results/local
bench: build
	$(GO) run -buildvcs=true ./bench -gpipebench $(BIN) -out $(OUT)

reproduce: build
	$(BIN) reproduce

# Pages with everything, of the results that reproduce has written last.
RESULTS ?= $(if $(wildcard results/local/records),results/local,results/reference-full)
report: build
	$(BIN) report --results $(RESULTS)

# Opens the pages and the pictures in a headless browser: of a phone, a desk and a large
# screen, light and dark, with and without the font of the pictures. A minute; it is
# skipped where there is no browser. With SHOTS=DIR these tests leave pictures there.
check-report: report
	$(GO) test -C browser -count=1 -run Report ./... -args -results $(abspath $(RESULTS))

# The playground in headless Chromium: every control, and trainings at three settings of each network, whose
# hashes must be those of the native program; and the page of gpipebench schedule.
check-playground: playground
	$(GO) test -C browser -count=1 -run Chromium ./...

# How long a step takes in the page, beside the same portable kernels natively: in turns, on a quiet machine.
playground-speed: playground
	$(GO) test -tags purego -c -o bin/playground.test ./playground
	$(GO) test -C browser -count=1 -v -run Speed ./... -args -speed

$(EXPERIMENTS) $(PAPERS): build
	$(BIN) $@

# Debian packages with gettext catalogs in some two hundred languages, for train --data
# gettext:corpus/usr/share/locale. They are downloaded and unpacked into corpus, and not
# installed. Another release of Debian may have other names: make corpus CORPUS="...".
CORPUS ?= iso-codes gcc-12-locales gnucash-common gimp-data inkscape aptitude-common libgtk-3-common \
	evolution-common vlc-l10n gettext libc-l10n kstars-data digikam-data
corpus:
	@command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { \
		echo "no apt-get and dpkg-deb here, which download and unpack: --data gettext:/usr/share/locale needs neither"; exit 1; }
	mkdir -p corpus/packages
	cd corpus/packages && for package in $(CORPUS); do \
		ls $${package}_*.deb >/dev/null 2>&1 || apt-get download $$package || exit 1; done
	for package in corpus/packages/*.deb; do \
		dpkg-deb --fsys-tarfile $$package | tar -x -C corpus ./usr/share/locale || exit 1; done

# Themes of icons in Debian packages, for train --data images:corpus/icons/THEME.
THEMES ?= gnome-icon-theme mate-icon-theme oxygen-icon-theme elementary-xfce-icon-theme lxde-icon-theme
icons:
	datasets/icons.sh corpus $(THEMES)

# Emoji from npm packages, for the same: what a network is transferred to, in the drawings of the first
# vendor, and what it is pretrained on, in the others'.
VENDORS ?= twitter google apple facebook
emoji:
	datasets/emoji.sh corpus $(VENDORS)

# What follows from the records of results/reference and results/reference-full, after
# these or a report have changed: the tables, claims.json, what
# README.md shows.
reference:
	$(GO) test ./lab/claims -run 'TestReferenceTables|TestReferenceLedger|TestDocuments' -update

# A verdict for each claim, from results/reference-full and, for what that
# lacks, results/reference.
verify: build
	$(BIN) verify

clean:
	rm -rf bin results/local $(SITE)
