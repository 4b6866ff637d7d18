package playground

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
)

var update = flag.Bool("update", false, "write the published hashes anew: only after a change that should move them, which says so")

// settings are three of each network; the tests in folder browser train the same.
func settings() (all []Settings) {
	for _, net := range Nets() {
		one, two, three := Defaults(net), Defaults(net), Defaults(net)
		two.K, two.M, two.Schedule, two.Checkpoint = 2, 8, "1f1b", "never"
		three.K, three.M, three.Schedule, three.Checkpoint, three.Seed = 3, 2, "zb-h1", "never", 2
		all = append(all, one, two, three)
	}
	return all
}

// Trainings end with the published weights, within 20 GFLOP, and use the memory that was
// planned.
func TestPublished(t *testing.T) {
	testkit.NotRaced(t)
	var lines []string
	for _, s := range settings() {
		steps := 0
		out := testkit.Must(Run(t.Context(), s, 0, func(Step) { steps++ }))(t, "%+v", s)
		if line := s.Function() + "\t" + out.SHA256 + "\n"; !strings.Contains(strings.Join(lines, ""), line) {
			lines = append(lines, line)
		}
		if !*update && (out.SHA256 != out.Published || out.Published == "") {
			t.Errorf("%+v: ends with %s, want %q", s, out.SHA256, out.Published)
		}
		p := out.Planned
		if steps != p.Steps || p.GFLOP > 20 || len(p.Devices) != s.K || p.Formula.Bubble != float64(s.K-1)/float64(s.M+s.K-1) {
			t.Errorf("%+v: %d steps of %+v", s, steps, p)
		}
		for k, d := range p.Devices {
			if d.High > d.Peak || d.High == 0 || s.Schedule == "gpipe" && d.High != d.Peak {
				t.Errorf("%+v: device %d uses %d bytes of %d", s, k, d.High, d.Peak)
			}
		}
		if timed := out.Timed; timed.Repetitions != steps-1 || len(timed.Tasks) != s.K || !(timed.Span > 0 && timed.Tick > 0) || !strings.Contains(out.Trace, "traceEvents") {
			t.Errorf("%+v: %+v", s, timed)
		}
		// Better than guessing: ten digits, and the uniform baseline of 16 tokens.
		if out.Accuracy < 0.3 {
			t.Errorf("%+v: accuracy %v", s, out.Accuracy)
		}
	}
	if *update {
		testkit.NoError(t, os.WriteFile("testdata/published.txt", []byte(strings.Join(lines, "")), 0o644))
	}
}

// The mean of steps is one of each task, also of tasks that a coarse clock saw take no time, and
// what did not happen stays so.
func TestMeanOf(t *testing.T) {
	step := func(f, r, update float64) *gpipe.Times {
		return &gpipe.Times{Stages: []gpipe.StageTimes{{F: []float64{f, 1}, R: []float64{0, r}, B: []float64{2, 2}, Update: update}, {F: []float64{1, 1}, B: []float64{f, 3}}}}
	}
	steps := []*gpipe.Times{step(0, 4, 1), step(1, 0, 2), step(2, 2, 3), step(1, 2, 2)}
	testkit.Equal(t, cmp.Diff(step(1, 2, 2).Stages, meanOf(steps).Stages), "", "-want +got")
	testkit.Equal(t, steps[0].Stages[0].F[0], 0, "the first step is changed")
}

// BenchmarkStep is a step of README's settings with these kernels, beside which TestSpeed of folder browser has the
// page's.
func BenchmarkStep(b *testing.B) {
	for _, net := range Nets() {
		b.Run(net, func(b *testing.B) {
			out := testkit.Must(Run(b.Context(), Defaults(net), b.N, func(Step) {}))(b)
			b.ReportMetric(out.Seconds/float64(b.N)*1e3, "ms/step")
		})
	}
}

// What cannot be run is an error that says what would be.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*Settings){
		"unknown network":                    func(s *Settings) { s.Net = "vision" },
		"at most one partition a layer":      func(s *Settings) { s.K = 9 },
		"schedule":                           func(s *Settings) { s.Schedule = "none" },
		"checkpoint":                         func(s *Settings) { s.Checkpoint = "some" },
		"[2 2 2 3]":                          func(s *Settings) { s.Cut = []int{2, 2, 2, 3} },
		"at most one micro-batch an example": func(s *Settings) { s.M = 17 },
	} {
		s := Defaults("lm")
		change(&s)
		testkit.Refused(Plan(s))(t, want)
	}
}

// The search finds what the experiment table1 found, whose table is committed, and more memory
// never holds less.
func TestSearchIsTable1(t *testing.T) {
	raw := testkit.Must(os.ReadFile("../results/reference/tables/table1.csv"))(t)
	rows, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err != nil || rows[0][5] != "modelled" {
		t.Fatal(err, rows[0])
	}
	table := map[string]string{}
	for _, row := range rows {
		if row[0] == "Transformer" {
			table[row[1]] = row[2] + " in the paper, " + row[5]
		}
	}
	var s Searching
	for _, w := range Ways {
		at := map[int64]int{}
		for _, gib := range []int64{1, 16, 40} {
			found := testkit.Must(s.Search(w, gib<<30))(t)
			at[gib] = found.Layers
			if found.Layers > 0 && (found.Peak > gib<<30 || found.Peak < gib<<29) {
				t.Errorf("%+v in %d GiB", found, gib)
			}
		}
		testkit.Equal(t, fmt.Sprint(w.Paper, " in the paper, ", at[16]), table[w.Name], "%s", w.Name)
		if w.K == 1 && at[1] != 0 || at[40] <= 2*at[16] {
			t.Errorf("%s: %v layers by GiB", w.Name, at)
		}
	}
}
