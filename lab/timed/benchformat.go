package timed

import (
	"fmt"
	"strings"

	"gpipebench/lab/records"
)

// StepTime is one timed step, for the Go benchmark format.
type StepTime struct {
	Name    string // as of a sub-benchmark: device=emulated/K=4/M=32
	Seconds float64
}

// BenchFormat writes an experiment's step times in the Go benchmark format
// (golang.org/design/14313-benchmark-format), which benchstat and its like read.
func BenchFormat(log *records.Log, steps []StepTime) string {
	m := log.Session.Machine
	var b strings.Builder
	for _, c := range [][2]string{
		{"goos", m.OS}, {"goarch", m.Arch}, {"pkg", "gpipebench/experiments"}, {"cpu", m.CPU},
		{"commit", timedCommit(log)}, {"kernels", m.Kernels}, {"profile", log.Key.Profile},
	} {
		fmt.Fprintf(&b, "%s: %s\n", c[0], c[1])
	}
	b.WriteString("\n")
	id := strings.ToUpper(log.Key.Experiment[:1]) + log.Key.Experiment[1:]
	for _, s := range steps {
		fmt.Fprintf(&b, "Benchmark%s/%s 1 %.0f ns/op\n", id, s.Name, s.Seconds*1e9)
	}
	return b.String()
}

// timedCommit is the commit of the last process that timed a round. A later one may have
// added what is modelled beside the times.
func timedCommit(log *records.Log) string {
	commit := log.Session.Commit
	for _, s := range log.Measuring() {
		if s.Process != nil && s.Process.Round != nil {
			commit = s.Commit
		}
	}
	return commit
}
