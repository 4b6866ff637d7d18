# Everything here needs Go and make; `make race` needs a C compiler as well.
GO ?= go
BIN := bin/gpipebench

# The experiments with a command of their own, whose folders are not in another's.
EXPERIMENTS := $(shell sed -n 's/^experiment: //p' experiments/*/*/spec.yaml)

.PHONY: build test faults race lint check bench reproduce report check-report reference verify clean $(EXPERIMENTS)

build:
	$(GO) build -buildvcs=auto -o $(BIN) ./cmd/gpipebench

# The whole suite on this machine's best kernels, then the parts that kernels
# touch once more on the others: AVX2 (AVX-512 masked off) and portable Go. Among
# the tests: README's tables and results/reference/tables are what the records
# give.
test: lint
	$(GO) test ./...
	GODEBUG=cpu.avx512f=off $(GO) test -short ./internal/kernel ./nn/... ./models/... ./gpipe/...
	$(GO) test -tags purego -short ./internal/kernel ./nn/... ./models/... ./gpipe/...

# The program, on bad inputs and faults: a part of test by itself.
faults:
	$(GO) test -count=1 ./faults

# The race detector needs cgo and cannot see into assembly.
race:
	CGO_ENABLED=1 $(GO) test -race -tags purego -short -timeout 30m ./...

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
RESULTS ?= $(if $(wildcard results/local/records),results/local,results/reference)
report: build
	$(BIN) report --results $(RESULTS)

# Opens the page and the pictures in a headless browser: of a phone, a desk and a large
# screen, light and dark, with and without the font of the pictures. Some ten seconds;
# it is skipped where there is no browser.
check-report: report
	bench/check_report.sh $(RESULTS)/report.html

$(EXPERIMENTS): build
	$(BIN) $@

# What follows from results/reference/records, after these or a report have
# changed: the tables, claims.json, the digests of all files, what README.md shows.
reference:
	$(GO) test -p 1 ./experiments ./experiments/page ./experiments/claims -run 'TestReferenceTables|TestReferenceLedger|TestReferenceSums|TestDocuments' -update

# A verdict for each of the paper's claims, from results/reference.
verify: build
	$(BIN) verify

clean:
	rm -rf bin results/local
