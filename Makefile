# Everything here needs Go and make; `make race` and `make mpi` need a C compiler as well.
GO ?= go
BIN := bin/gpipebench

# The experiments with a command of their own, whose folders are not in another's.
EXPERIMENTS := $(shell sed -n 's/^experiment: //p' experiments/*/*/spec.yaml)

# The papers whose experiments are not those of reproduce.
PAPERS := $(filter-out gpipe,$(patsubst experiments/%/claims.yaml,%,$(wildcard experiments/*/claims.yaml)))

.PHONY: build corpus icons emoji test mpi mpi-ompi mpi-mpich systems faults race lint check bench reproduce report check-report reference verify clean $(EXPERIMENTS) $(PAPERS)

build:
	$(GO) build -buildvcs=auto -o $(BIN) ./cmd/gpipebench

# The whole suite on this machine's best kernels, then what kernels touch once more on
# the others, AVX2 (AVX-512 masked off) and portable Go: of pipelines the tests that compare
# bits, memory and PyTorch. Among the tests: README's tables and results/reference/tables
# are what the records give.
KERNELS := ./internal/kernel ./nn/... ./models/... ./gpipe/reduction
BITS := G1|G2|ToTheFloat|PyTorch|Definition|Derivatives|LARS|Decode|ClosedForm|SmallerFits
test: lint mpi
	$(GO) test -timeout 30m ./...
	GODEBUG=cpu.avx512f=off $(GO) test -short -timeout 30m $(KERNELS)
	GODEBUG=cpu.avx512f=off $(GO) test -short -timeout 30m ./gpipe -run '$(BITS)'
	$(GO) test -tags purego -short -timeout 30m $(KERNELS)
	$(GO) test -tags purego -short -timeout 30m ./gpipe -run '$(BITS)'

# The transport over MPI, with each MPI that is installed: the conformance suite, and
# trainings in processes that mpirun starts. With MPI=required, as CI has it, an MPI that
# is missing is a failure. The go command takes a package that was compiled with one MPI
# for that of another, unless C flags differ.
MPI ?= $(if $(filter true 1,$(CI)),required)
mpi: mpi-ompi mpi-mpich

mpi-ompi: TAG = mpi
mpi-mpich: TAG = mpich
mpi-ompi mpi-mpich: mpi-%:
	@if pkg-config --exists $* 2>/dev/null && command -v mpirun >/dev/null; then set -e; \
		export CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -DWITH_$*"; \
		$(GO) vet -tags $(TAG) ./gpipe/transport/mpi/... ./cmd/gpipebench; \
		$(GO) test -count=1 -tags $(TAG) ./gpipe/transport/mpi; \
		$(GO) test -count=1 -parallel 4 -tags $(TAG) ./cmd/gpipebench -run TestTransportMPI; \
	else echo "$@: $(if $(filter required,$(MPI)),failed,skipped): pkg-config, its package $* or mpirun is missing (Debian: pkg-config libopenmpi-dev libmpich-dev)"; \
		test "$(MPI)" != required; fi

# The program built for other systems, and vet of the packages that have files for some of
# them only: this system compiles those of its own.
SYSTEMS := windows/amd64 darwin/arm64 freebsd/amd64 linux/arm64
systems:
	@set -e; export CGO_ENABLED=0; \
	each() { for s in $(SYSTEMS); do GOOS=$${s%/*} GOARCH=$${s#*/} "$$@" || { echo "$$s: failed"; exit 1; }; done; }; \
	each $(GO) build -o /dev/null ./cmd/gpipebench; \
	each $(GO) vet $$(each $(GO) list -f '{{if .IgnoredGoFiles}}{{.ImportPath}}{{end}}' ./... | sort -u)

# The program, on bad inputs and faults: a part of test by itself.
faults:
	$(GO) test -count=1 ./faults

# The race detector needs cgo and cannot see into assembly. Neither an experiment's own folder nor
# these packages start a goroutine; what they call and does is among the packages that are watched.
# That functions of experiments which run beside one another share nothing is a test of its own.
ALONE := internal/kernel internal/stats gpipe/schedule gpipe/timeline gpipe/planner gpipe/partition \
	lab/claims lab/page lab/plot simulate
race:
	@if grep -lE '^[[:space:]]*go (func|[a-zA-Z.]+\()|\.Go\(' $$(ls $(ALONE:=/*.go) experiments/*/*/*.go experiments/*/*/*/*.go | grep -v _test.go); then \
		echo "start goroutines, and make race leaves them out: want them in it"; exit 1; fi
	CGO_ENABLED=1 $(GO) test -race -tags purego -short -timeout 30m \
		$$($(GO) list ./... | grep -vE "^$$($(GO) list -m)/($$(echo $(ALONE) | tr ' ' '|')|experiments/[a-z0-9]+/.*)$$")

# Generated assembly must be what its generator makes.
lint:
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags purego ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	cd examples/outside && $(GO) vet ./... && $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	$(GO) generate ./internal/kernel
	git diff --exit-code -- internal/kernel

# That training does not depend on K, and what it does on M, at the smoke
# profile; a verdict for each claim from the reference.
check: build
	$(BIN) consistency --profile smoke
	$(BIN) verify

# Adds what it measures to records/bench.jsonl in OUT. For the table in
# docs/design.md: make bench OUT=results/reference reference, on a quiet machine.
OUT ?= results/local
bench: build
	$(GO) run ./bench -gpipebench $(BIN) -out $(OUT)

reproduce: build
	$(BIN) reproduce

# One page with everything, of the results that reproduce has written last.
RESULTS ?= $(if $(wildcard results/local/records),results/local,results/reference-full)
report: build
	$(BIN) report --results $(RESULTS)

# Opens the page and the pictures in a headless browser: of a phone, a desk and a large
# screen, light and dark, with and without the font of the pictures. Some ten seconds;
# it is skipped where there is no browser.
check-report: report
	bench/check_report.sh $(RESULTS)/report.html

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
	$(GO) run ./cmd/gpipebench data gettext:corpus/usr/share/locale

# Themes of icons in Debian packages, for train --data images:corpus/icons/THEME.
THEMES ?= gnome-icon-theme mate-icon-theme oxygen-icon-theme elementary-xfce-icon-theme lxde-icon-theme
icons:
	datasets/icons.sh corpus $(THEMES)

# Emoji in the drawings of two vendors, from npm packages, for the same.
VENDORS ?= google twitter
emoji:
	datasets/emoji.sh corpus $(VENDORS)

# What follows from the records of results/reference and results/reference-full, after
# these or a report have changed: the tables, claims.json, the digests of all files, what
# README.md shows.
reference:
	$(GO) test ./lab/claims -run 'TestReferenceTables|TestReferenceLedger|TestReferenceSums|TestDocuments' -update

# A verdict for each claim, from results/reference-full and, for what that
# lacks, results/reference.
verify: build
	$(BIN) verify

clean:
	rm -rf bin results/local
