package gpipe

import (
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
)

// loadedBreakdown is the experiment, its rounds, and an empty log, in the smoke profile.
func loadedBreakdown(t *testing.T) (*breakdown, *timed.Rounds, *records.Log) {
	t.Helper()
	b := labtest.Loaded[*breakdown](t, Paper.Experiment("breakdown").Load)
	r, log := timedtest.Start(t, b)
	return b, r, log
}

// On even stages theory and measurement are one.
func TestBreakdownReportOnEvenStages(t *testing.T) {
	b, rounds, log := loadedBreakdown(t)
	timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
	r, err := b.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	timedtest.CheckSame(t, r.Tables[0], "theory, K = 2", "measured, K = 2", "reference, K = 2")
	timedtest.CheckSame(t, r.Tables[0], "theory, K = 4", "measured, K = 4", "reference, K = 4")
}

// The mean of the stages' times over the largest.
func TestBreakdownBalance(t *testing.T) {
	_, r, log := loadedBreakdown(t)
	timedtest.FillRounds(t, log, r, 0, func(_ *timed.Run, stage int) float64 { return float64(3 - 2*min(stage, 1)) })
	runs, err := r.All(log)
	if err != nil {
		t.Fatal(err)
	}
	if got := runs[breakdownRun(2)].Balance(); math.Abs(got-2./3) > 1e-6 {
		t.Errorf("stages of 3 and 1: %v, want 2/3", got)
	}
}

// The parts of every measured step add up to it, whatever the stages, and so do
// the table's columns; the paper's do as well.
func TestBreakdownColumnsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	b, rounds, log := loadedBreakdown(t)
	timedtest.FillRounds(t, log, rounds, 1<<18, func(*timed.Run, int) float64 { return 0.5 + rng.Float64() })
	runs, err := rounds.All(log)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range runs {
		if sum := m.Parts.Sum(); math.Abs(sum-m.Parts.Step) > 1e-9*m.Parts.Step {
			t.Errorf("%s: the parts add up to %v, the step takes %v", name, sum, m.Parts.Step)
		}
	}
	r, err := b.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	// K = 4: with fewer stages may be even by chance, or, one at a time, no matter.
	if p := runs[breakdownRun(4)].Parts; p.Communication != 0 || p.Computation <= 0 || p.Imbalance <= 0 || p.Setup <= 0 || p.Update <= 0 {
		t.Errorf("K = 4: %+v", p)
	}
	table := r.Tables[0]
	for i, c := range table.Columns[1:] {
		if strings.HasPrefix(c.Name, "95%") {
			continue
		}
		var sum float64
		for _, row := range table.Printed() {
			if row[i+1] == "-" {
				continue
			}
			share, err := strconv.ParseFloat(strings.Trim(row[i+1], "(%)"), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += share
		}
		if math.Abs(sum-100) > 0.05*float64(len(table.Rows)) {
			t.Errorf("%s: the parts add up to %.1f%%", c.Name, sum)
		}
	}
	for _, f := range r.Files {
		if f.Name == "timeline.svg" {
			if err := xml.Unmarshal([]byte(f.Text), new(struct{})); err != nil || !strings.Contains(f.Text, "Naive") || !strings.Contains(f.Text, "GPipe") {
				t.Errorf("timeline.svg: %v", err)
			}
			return
		}
	}
	t.Error("no timeline.svg")
}

// The networks are smaller than those of the smoke profile.
func TestBreakdownMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	b, rounds, log := loadedBreakdown(t)
	timedtest.CheckMeasures(t, rounds, log, func() (*lab.Report, error) { return b.Report(log, nil) })
}

func TestBreakdownSpecErrors(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("breakdown"), [][3]string{
		{"m: 16", "m: 15", "not of one size"},
		{"rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
	})
}

// Each table of an experiment says which seeds went into it, and that rounds are
// too few if they are; with enough the breakdown's shares have intervals.
func TestBreakdownTablesSaySeedsAndNumbers(t *testing.T) {
	for _, measured := range []int{2, 7} {
		b, _, log := loadedBreakdown(t)
		breakdownProfile := b.Spec.Profiles["smoke"]
		breakdownProfile.Rounds = measured
		b.Spec.Profiles["smoke"] = breakdownProfile
		rng := rand.New(rand.NewPCG(7, uint64(measured)))
		for i := range b.Spec.runs(breakdownProfile) {
			r, _, err := b.Rounds("smoke")
			if err != nil {
				t.Fatal(err)
			}
			r.Runs = r.Runs[i : i+1]
			for round := range measured { // rounds that differ
				one := *r
				one.Count = 1
				own := records.New(log.Key)
				timedtest.FillRounds(t, own, &one, 1<<16, func(*timed.Run, int) float64 { return 0.5 + rng.Float64() })
				if err := log.Add(r.Runs[0].Sample(round, 0), 3, own.Samples[r.Runs[0].Sample(0, 0)].Data); err != nil {
					t.Fatal(err)
				}
			}
		}
		report, err := lab.ReportOf(b, log, nil)
		if err != nil {
			t.Fatal(err)
		}
		enough := measured >= stats.LeastForInterval(0.95)
		for _, table := range report.Tables {
			notes := strings.Join(table.Notes, "\n")
			if !strings.Contains(notes, "Seeds: 3.") || enough == strings.Contains(notes, fmt.Sprintf("Warning: n = %d rounds", measured)) {
				t.Errorf("%s, %d rounds: notes %q", table.ID, measured, notes)
			}
			with := 0
			for _, row := range table.Printed() {
				for i, c := range table.Columns {
					if strings.HasPrefix(c.Name, "95%") && strings.HasPrefix(row[i], "[") {
						with++
					}
				}
			}
			if enough != (with >= len(table.Rows)) || !enough && with > 0 {
				t.Errorf("%s, %d rounds: %d intervals in %d rows", table.ID, measured, with, len(table.Rows))
			}
		}
		if page := lab.ProvenanceNote(log); strings.Contains(page, "processes") {
			t.Errorf("of one process: %q", page)
		}
	}
}
