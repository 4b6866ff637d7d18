// Package timedtest fills logs of rounds without measuring.
package timedtest

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// Timed is an experiment that embeds timed.Timed.
type Timed[P any] interface {
	lab.Experiment
	Rounds(profile string) (*timed.Rounds, P, error)
}

// Start returns an experiment's rounds and an empty log, in the smoke profile. A
// report of that log must say that it has no samples.
func Start[P any](t *testing.T, e Timed[P]) (*timed.Rounds, *records.Log) {
	t.Helper()
	r, _, err := e.Rounds("smoke")
	if err != nil {
		t.Fatal(err)
	}
	log := records.New(e.Key("smoke"))
	if _, err := e.Report(log, nil); err == nil || !strings.Contains(err.Error(), "no sample") {
		t.Errorf("without records: %v", err)
	}
	return r, log
}

// FillRounds gives every run's samples to a log, as devices would leave them on
// which a task of stage k takes of(run, k) per forward unit and twice as much
// backward. A forward unit is one part in K M of the network, M counted over all groups.
// Setup, update and adding up groups take ends nanoseconds.
func FillRounds(t *testing.T, log *records.Log, r *timed.Rounds, ends int64, of func(run *timed.Run, stage int) float64) {
	t.Helper()
	for i := range r.Runs {
		run := &r.Runs[i]
		setup := run.Training.Setup
		micro, replicas := len(run.Sizes()), max(setup.Replicas, 1)
		groups := max(setup.Groups, replicas)
		lists, err := schedule.Build(setup.Schedule, setup.Partitions, micro, setup.Checkpoint, setup.LateRecompute)
		if err != nil {
			t.Fatal(err)
		}
		s := &timed.Sample{}
		for at := range replicas * setup.Partitions {
			k := at % setup.Partitions
			unit := int64(float64(1<<24) / float64(setup.Partitions*micro*replicas) * of(run, k))
			f, rec, b := make([]int64, micro), make([]int64, micro), make([]int64, micro)
			for _, task := range lists[k] {
				switch task.Kind {
				case schedule.Forward:
					f[task.Micro] = unit
				case schedule.Recompute:
					rec[task.Micro] = unit
				case schedule.Backward:
					b[task.Micro] = 2 * unit
				}
			}
			s.F, s.R, s.B = append(s.F, f), append(s.R, rec), append(s.B, b)
			s.Setup, s.Update = append(s.Setup, ends), append(s.Update, ends)
			s.Peak, s.HighWater = append(s.Peak, 1<<20), append(s.HighWater, 1<<20)
			if at < setup.Partitions {
				s.Partition = append(s.Partition, 1)
			}
			if groups > 1 {
				s.Reduce, s.Gather = append(s.Reduce, ends), append(s.Gather, 0)
			}
			if each := groups / replicas; each > 1 {
				sums := make([]int64, micro)
				for g := 1; g < each; g++ {
					sums[g*setup.MicroBatches-1] = ends
				}
				s.Groups = append(s.Groups, sums)
			}
		}
		layers, err := run.Training.Model.Build()
		if err != nil {
			t.Fatal(err)
		}
		s.Partition[0] += len(layers) - setup.Partitions
		times, err := s.Times(run)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := times.Replay()
		if err != nil {
			t.Fatal(err)
		}
		s.Seconds = tl.Span()
		for round := range r.Count {
			for step := range run.Steps {
				if err := log.Add(run.Sample(round, step), 1, s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	log.Session = records.Provenance{Time: "then", Machine: machine.Machine{CPU: "a machine", Cores: 2, GOMAXPROCS: 2}}
}

func Even(*timed.Run, int) float64 { return 1 }

// CheckSame checks that columns hold the same in every row.
func CheckSame(t *testing.T, table *lab.Table, columns ...string) {
	t.Helper()
	for _, name := range columns {
		at := table.Column(name)
		if at < 0 {
			t.Fatalf("%s has no column %s", table.ID, name)
		}
		for _, row := range table.Printed() {
			if want := row[table.Column(columns[0])]; row[at] != want {
				t.Errorf("%s, row %q: %s %s, want %s", table.ID, row[0], name, row[at], want)
			}
		}
	}
}

// CheckParts checks a table of even stages' steps: the shares add up, nothing is
// lost between stages, and a baseline recomputes nothing.
func CheckParts(t *testing.T, table *lab.Table) {
	t.Helper()
	for _, row := range table.Rows {
		share := map[string]float64{}
		var sum float64
		for i, c := range table.Columns {
			if strings.HasSuffix(row[i].Text, "%") {
				share[c.Name] = row[i].Numbers[0]
				sum += share[c.Name]
			}
		}
		sum -= share["classic bubble"]
		naive := strings.Contains(row[0].Text+row[1].Text, "naive")
		if math.Abs(sum-100) > 1e-6 || math.Abs(share["imbalance"]) > 1e-6 || (share["recompute"] == 0) != naive || share["bubble"] > share["classic bubble"] {
			t.Errorf("%s: %q", table.ID, row)
		}
	}
}

// CheckMeasures checks that measuring a small network leaves what a report needs, and
// that what is there is not measured again.
func CheckMeasures(t *testing.T, r *timed.Rounds, log *records.Log, report func() (*lab.Report, error)) {
	t.Helper()
	r.WarmUp = 0
	for i := range r.Runs {
		r.Runs[i].Training.Model = train.Model{Name: "amoebanetd", Layers: 3, Filters: 8, Image: 48, Classes: 3}
	}
	measure := func() (samples int) {
		if err := timed.InThisProcess(t.Context(), r, log, progress.Silent{}); err != nil {
			t.Fatal(err)
		}
		return len(log.Names)
	}
	n := measure()
	made, err := report()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range made.Rendered() {
		if f.Text == "" {
			t.Errorf("%s is empty", f.Name)
		}
	}
	if again := measure(); again != n {
		t.Errorf("measured again: %d samples more", again-n)
	}
}
