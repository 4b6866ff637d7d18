package published

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

type predictionsSpec struct {
	lab.Head `yaml:",inline"`
	Vary     float64            `yaml:"vary" want:">0..50"` // percent, by which each assumed number is changed
	Profiles map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"1..20000"`   // trainings of a table
	Varied   int      `yaml:"varied" want:"1..20000"` // the same, where an assumed number is changed
}

// predictions predicts the committed tables, compares, and varies what is assumed.
type predictions struct {
	lab.Base[predictionsSpec]
}

func newPredictions() (lab.Experiment, error) {
	e := &predictions{}
	e.Others = func(string) string { return machine.Digest(string(committed)) }
	return e, nil
}

func (e *predictions) Resolve() *lab.Problem { return nil }

// some are trainings of all tables: of one with more than most, as many at even distances.
func some(all []*training, most int) (some []*training) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].table == all[0].table {
			n++
		}
		for i := range min(n, most) {
			some = append(some, all[i*n/min(n, most)])
		}
		all = all[n:]
	}
	return some
}

// varied is one assumed number changed by a factor, and the trainings on its accelerator.
type varied struct {
	assumption
	by  float64
	all []*training
}

func (v varied) sample() string {
	return fmt.Sprintf("assumed/%s/%s/%+.0f%%", v.accelerator, v.name, 100*(v.by-1))
}

// errors are the mean absolute errors of each table's rows.
func (v varied) errors(ctx context.Context) (map[string]float64, error) {
	predicted := map[string]outcome{}
	for _, of := range v.all {
		p, err := Committed().predict(ctx, of.table, of.rows[0], func(a *accelerator.Accelerator) { v.scale(a, v.by) })
		if err != nil {
			return nil, err
		}
		predicted[of.rows[0].ID] = outcome{Predicted: p}
	}
	return absolute(v.all, predicted), nil
}

// absolute are the mean absolute errors of trainings' rows by table.
func absolute(all []*training, predicted map[string]outcome) map[string]float64 {
	off := map[string][]float64{}
	for _, of := range all {
		for _, row := range of.rows {
			off[of.table.ID] = append(off[of.table.ID], predicted[of.rows[0].ID].of(row.What) / *row.Value - 1)
		}
	}
	errors := map[string]float64{}
	for table, of := range off {
		errors[table] = errorsOf(of, len(of)).MAE
	}
	return errors
}

// variations lists what a profile varies.
func (e *predictions) variations(p profile) (list []varied, err error) {
	t := Committed()
	all := some(t.trainings(), min(p.Varied, p.Most))
	for _, name := range t.used(all) {
		on := slices.DeleteFunc(slices.Clone(all), func(of *training) bool { return nearest(t.device(of.rows[0].Device)) != name })
		assumed, err := assumptions(name)
		if err != nil {
			return nil, err
		}
		for _, a := range assumed {
			for _, by := range []float64{1 - e.Spec.Vary/100, 1 + e.Spec.Vary/100} {
				list = append(list, varied{a, by, on})
			}
		}
	}
	return list, nil
}

func (e *predictions) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	of, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	for _, of := range some(Committed().trainings(), of.Most) {
		jobs = append(jobs, lab.Making(of.rows[0].ID, 0, func(ctx context.Context) (Predicted, error) {
			return Committed().predict(ctx, of.table, of.rows[0], nil)
		}))
	}
	list, err := e.variations(of)
	if err != nil {
		return err
	}
	for _, v := range list {
		jobs = append(jobs, lab.Making(v.sample(), 0, v.errors))
	}
	return lab.MakeMissing(ctx, e.ID(), log, p, jobs)
}

func (e *predictions) Report(log, _ *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	known := map[string]outcome{}
	for _, of := range some(Committed().trainings(), p.Most) {
		var made Predicted
		if err := log.Get(of.rows[0].ID, &made); err != nil {
			return nil, err
		}
		if !(made.Seconds > 0) || made.Bytes < 1 {
			return nil, log.Strange(of.rows[0].ID, fmt.Errorf("%g seconds, %d bytes: want more than 0", made.Seconds, made.Bytes))
		}
		for _, row := range of.rows {
			known[row.ID] = outcome{Predicted: made}
		}
	}
	assumed, err := e.assumedTable(log, p, known)
	if err != nil {
		return nil, err
	}
	b := Committed().with(known).score(known, known)
	r := &lab.Report{Tables: []*lab.Table{b.summaryTable(e.ID(), e.Title()), b.partsTable(known), assumed, printedTable()}}
	r.Files, err = plot.Figure(e, "", r.Tables, b.panels())
	return r, err
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

// assumedTable says what each number does to the errors that was assumed when it was changed.
func (e *predictions) assumedTable(log *records.Log, p profile, known map[string]outcome) (*lab.Table, error) {
	t := &lab.Table{ID: id + "-assumed", Title: "Assumed numbers, and how much depends on them", Caption: []string{
		fmt.Sprintf("Every number of an accelerator that comes neither from a measurement nor from a data sheet; the accelerators' files give the reasons. The mean absolute error of a table, as it is, and with the number %.0f%% lower and higher; for a table with more than %d trainings, over that many at even distances.", e.Spec.Vary, p.Varied),
	}}
	t.Texts("accelerator", "number", "table")
	t.Numbers("error", "lower", "higher")
	of := Committed()
	all := some(of.trainings(), min(p.Varied, p.Most))
	less, more := fmt.Sprintf("/%+.0f%%", -e.Spec.Vary), fmt.Sprintf("/%+.0f%%", e.Spec.Vary)
	for _, sample := range slices.Sorted(maps.Keys(log.Samples)) {
		name, isLower := strings.CutSuffix(sample, less)
		parts := strings.Split(name, "/")
		if !isLower || len(parts) != 3 {
			continue
		}
		lower, higher := map[string]float64{}, map[string]float64{}
		if err := errors.Join(log.Get(sample, &lower), log.Get(name+more, &higher)); err != nil {
			return nil, err
		}
		as := absolute(slices.DeleteFunc(slices.Clone(all), func(a *training) bool { return nearest(of.device(a.rows[0].Device)) != parts[1] }), known)
		for _, table := range slices.Sorted(maps.Keys(as)) {
			if !(lower[table]*higher[table] > 0) {
				return nil, log.Strange(sample, fmt.Errorf("no error of %s: want one", table))
			}
			t.Add(parts[1], parts[2], table, lab.Percent(as[table], 1), lab.Percent(lower[table], 1), lab.Percent(higher[table], 1))
		}
	}
	return t, nil
}

var printedMFU = regexp.MustCompile(`MFU ([0-9.]+)%`)

// printedTable compares the utilisation that a publication prints with what follows from its seconds.
func printedTable() *lab.Table {
	t := &lab.Table{ID: id + "-printed", Title: "Printed utilisation, from printed seconds", Caption: []string{
		"Model FLOPs of a step (three times the forward pass, including logits and full attention, nothing recomputed) over the printed seconds, in percent of the peak of all devices, compared with the printed percentage.",
	}}
	t.Texts("row")
	t.Numbers("seconds", "printed", "computed", "difference")
	of := Committed()
	for i := range of.Tables {
		table := &of.Tables[i]
		for _, row := range table.Rows {
			m := printedMFU.FindStringSubmatch(row.Printed)
			if m == nil || row.What != stepSeconds || row.Class != "dense" {
				continue
			}
			r := table.assuming(row)
			mfu := ConstantShare * of.shared(table, &row) / *r.Value
			printed, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				continue
			}
			t.Add(row.ID, lab.Number("%.4g", *r.Value), lab.Value{Text: m[1] + "%", Numbers: []float64{printed}}, lab.Percent(mfu, 1), signed(100*mfu/printed-1))
		}
	}
	return t
}
