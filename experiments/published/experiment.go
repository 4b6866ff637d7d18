package published

import (
	"context"
	"slices"

	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

type predictionsSpec struct {
	lab.Head `yaml:",inline"`
	Profiles map[string]struct {
		Expected lab.Span `yaml:"expected" want:"shown"`
		Most     int      `yaml:"most" want:"1..20000"` // trainings of a table
	} `yaml:"profiles"`
}

// predictions predicts the committed tables, and compares.
type predictions struct {
	lab.Base[predictionsSpec]
}

func newPredictions() (lab.Experiment, error) {
	e := &predictions{}
	e.Others = func(string) string { return machine.Digest(string(committed)) + figures() }
	return e, nil
}

// figures are those of all accelerators that a device of the tables stands for.
func figures() string { return "" }

func (e *predictions) Resolve() *lab.Problem { return nil }

// trainings are those of a profile: of a table with more than most, as many at even distances.
func (e *predictions) trainings(profile string) (some []*training, err error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	all := Committed().trainings()
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].table == all[0].table {
			n++
		}
		for i := range min(n, p.Most) {
			some = append(some, all[i*n/min(n, p.Most)])
		}
		all = all[n:]
	}
	return some, nil
}

// with is tables without rows that could be modelled and were not.
func (t *Tables) with(known map[string]outcome) *Tables {
	some := *t
	some.Tables = slices.Clone(t.Tables)
	for i := range some.Tables {
		table := &some.Tables[i]
		table.Rows = slices.DeleteFunc(slices.Clone(table.Rows), func(r Row) bool {
			_, modelled := known[r.ID]
			return !modelled && t.reason(table, &r) == ""
		})
	}
	return &some
}

func (e *predictions) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	all, err := e.trainings(log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	for _, of := range all {
		jobs = append(jobs, lab.Making(of.rows[0].ID, 0, func(ctx context.Context) (Predicted, error) {
			return Committed().predict(ctx, of.table, of.rows[0], nil)
		}))
	}
	return lab.MakeMissing(ctx, e.ID(), log, p, jobs)
}

func (e *predictions) Report(log, _ *records.Log) (*lab.Report, error) {
	all, err := e.trainings(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	known := map[string]outcome{}
	for _, of := range all {
		var made Predicted
		if err := log.Get(of.rows[0].ID, &made); err != nil {
			return nil, err
		}
		for _, row := range of.rows {
			known[row.ID] = outcome{Predicted: made}
		}
	}
	b := Committed().with(known).score(known, known)
	r := &lab.Report{Tables: []*lab.Table{b.summaryTable(e.ID(), e.Title()), b.reasonTable(), b.partsTable(known)}}
	r.Files, err = plot.Figure(e, "", r.Tables, b.panels())
	return r, err
}
