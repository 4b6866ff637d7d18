//go:build linux

package main

import (
	"bytes"
	"cmp"
	"strings"
	"testing"

	"gpipebench/experiments/beyond"
	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// The experiments on processes start some, and their records say which ran where.
func TestProcessesExperiment(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	_, second, _ := strings.Cut(beyond.Paper.Experiment("processes").Spec(), "shard_update: true}\n      - {k: 1, r: 4}\n      - {k: 4, r: 1}\n")
	second, _, _ = strings.Cut(second, "\nprofiles:")
	for _, c := range []struct {
		id, prints string
		less       []string // changes of its spec
	}{
		{"processes", "runs agree to the bit", []string{"processes: [2, 4]", "processes: [2]", second, ""}},
		{"processes-throughput", "measured / one process", nil},
	} {
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			dir, temporary := t.TempDir(), t.TempDir()
			line := "reproduce --profile smoke --only " + c.id + " --out " + dir
			if !testkit.IsDeep() {
				line += " --spec " + changed(t, c.id, append(c.less, "networks: [unix, tcp, mpi]", "networks: [unix]")...)
			}
			var out bytes.Buffer
			cmd := command(temporary, line)
			cmd.Stdout = &out
			start(t, cmd).endsWith(0)
			testkit.Has(t, out.String(), c.prints)
			nothingLeft(t, temporary)
			if c.id == "processes" {
				checkProcesses(t, dir)
			}
			again := start(t, command(temporary, line))
			again.endsWith(0)
			testkit.Equal(t, strings.Count(again.said.String(), "complete records of "), 1, "once more: experiments with complete records")
		})
	}
}

// checkProcesses checks what the records of processes say of them.
func checkProcesses(t *testing.T, dir string) {
	t.Helper()
	log := testkit.Must(records.Load(records.File(dir, "processes"), "processes"))(t)
	several := 0
	for _, name := range log.Names {
		var r struct {
			Processes []train.Process `json:"processes,omitempty"`
		}
		testkit.NoError(t, log.Get(name, &r))
		for rank, p := range r.Processes {
			several++
			if p.Rank != rank || p.Host == "" || p.Places == "" || p.MaxRSSBytes == 0 {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
	if several < 16 {
		t.Errorf("%d processes are recorded", several)
	}
}

// The accumulation of a table runs in processes too, with one sum whichever way, and is
// complete the second time.
func TestAccumulationMeasured(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	dir, temporary, kinds := t.TempDir(), t.TempDir(), 4+3
	line := "accumulation-measured --profile smoke --out " + dir
	if !testkit.IsDeep() {
		kinds = 3 + 2
		line += " --spec " + changed(t, "accumulation-measured", "processes: [1, 2, 4, 8]", "processes: [1, 2, 4]")
	}
	var out bytes.Buffer
	cmd := command(temporary, line)
	cmd.Stdout = &out
	start(t, cmd).endsWith(0)
	testkit.Has(t, out.String(), "gather / reduce, modelled")
	nothingLeft(t, temporary)
	log := testkit.Must(records.Load(records.File(dir, "accumulation-measured"), "accumulation-measured"))(t)
	sums := map[int]string{}
	for _, name := range log.Names {
		var r struct {
			Ranks []struct {
				Rank     int    `json:"rank"`
				Program  int64  `json:"program_bytes"`
				Resident int64  `json:"resident_bytes"`
				SHA256   string `json:"sha256"`
			} `json:"ranks"`
		}
		testkit.NoError(t, log.Get(name, &r))
		for _, o := range r.Ranks {
			if o.Program == 0 || o.Resident == 0 { // the system may have taken back pages of the program's
				t.Errorf("%s: %+v", name, o)
			}
			n := len(r.Ranks)
			if !strings.Contains(name, "/V=500/") {
				n = -n // the smaller table
			}
			sums[n] = cmp.Or(sums[n], o.SHA256)
			testkit.Equal(t, o.SHA256, sums[n], "%s, rank %d: another sum than before", name, o.Rank)
		}
	}
	testkit.Equal(t, len(sums), kinds, "kinds of runs with sums")
	again := start(t, command(temporary, line))
	again.endsWith(0)
	testkit.Equal(t, strings.Count(again.said.String(), "complete records of "), 1, "once more: experiments with complete records")
}

// A rank refuses what it cannot exchange with one line.
func TestExchangeRefuses(t *testing.T) {
	for args, says := range map[string]string{
		"exchange": "want accumulate or sum", "exchange --of sum --job {": "unexpected EOF", `exchange --of sum --job {"Sise":1}`: "unknown field",
		`exchange --of accumulate --job {"Way":1}`: "want 1 or more of each",
	} {
		fails(t, 2, says, strings.Fields(args)...)
	}
}
