package gpipe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

// unstatedSpec is the spec of unstated.
type unstatedSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	M                                []int           `yaml:"m" want:"1..65536"` // of Figure 3's pipelines
	Cuts                             []cells.CutSpec `yaml:"cuts"`              // of these
	Paddings                         []string        `yaml:"paddings"`          // of their accelerator: as published, or a variation
	Links                            []string        `yaml:"links"`             // of Table 3's: the same
	Reading                          readingSpec     `yaml:"reading"`
}

// readingSpec is a convention for Table 3 that was chosen after its default had been compared.
type readingSpec struct {
	Cut   cells.CutSpec `yaml:"cut"`
	Batch string        `yaml:"batch" want:"batches"`
}

// asPublished is the variation that is none.
const asPublished = "as published"

// unstated models cells of Figure 3 and Table 3 under all that the paper leaves open. It has code of its own
// since its cells belong to other experiments.
type unstated struct {
	lab.Base[unstatedSpec]
	figure3         *figure3
	table3          *table3
	paddings, links []accelerator.Variation
}

func newUnstated() (lab.Experiment, error) {
	figure, err := another[*figure3]("figure3", newFigure3)
	if err != nil {
		return nil, err
	}
	table, err := another[*table3]("table3", newTable3)
	if err != nil {
		return nil, err
	}
	u := &unstated{figure3: figure, table3: table}
	u.Others = func(profile string) string { return figure.Decides(profile) + table.Decides(profile) }
	return u, nil
}

func (u *unstated) Resolve() (p *lab.Problem) {
	if u.paddings, p = orNone("paddings", u.Spec.Paddings); p == nil {
		u.links, p = orNone("links", u.Spec.Links)
	}
	if r := u.Spec.Reading; p == nil && !slices.Contains(u.table3.Spec.ConventionsOf(u.table3.Spec.Networks[0]), u.reading()) {
		return lab.At(fmt.Errorf("%v, %s batch: want a convention of table3", r.Cut, r.Batch), "reading")
	}
	if p == nil {
		p = u.Spec.CheckForms(u.data())
	}
	return p
}

// reading is the convention of the spec: whole layers and early recomputation as in the default.
func (u *unstated) reading() cells.Convention {
	c := u.table3.Spec.ConventionsOf(u.table3.Spec.Networks[0])[0]
	c.Cut, c.Batch = u.Spec.Reading.Cut, u.Spec.Reading.Batch
	return c
}

// orNone are the variations of a field, which may be as published.
func orNone(field string, names []string) (all []accelerator.Variation, p *lab.Problem) {
	for _, name := range names {
		one := []accelerator.Variation{{}}
		if name != asPublished {
			if one, p = variations(field, []string{name}); p != nil {
				return nil, p
			}
		}
		all = append(all, one...)
	}
	return all, nil
}

// swept is a scenario of Figure 3 with one choice of what is open.
type swept struct {
	*scenario
	setup    train.Setup
	modelled cells.Filling
	padding  int    // its number
	as       string // the choice but for the padding
}

func (s swept) run() string { return s.scenario.run() + "/" + s.as }

// sweep are a scenario's choices. One without a pipeline has one micro-batch and only its cut.
func (u *unstated) sweep(s *scenario) (all []swept) {
	ms := u.Spec.M
	if s.setup.MicroBatches == 1 {
		ms = []int{1}
	}
	for _, m := range ms {
		for padding := range u.paddings {
			for _, cut := range u.Spec.Cuts {
				one := swept{s, cut.Setup(s.setup), u.figure3.Spec.Modelled, padding, fmt.Sprintf("M = %d, %v", m, cut)}
				one.setup.MicroBatches = m
				one.modelled.Batch = max(one.modelled.Batch, m)
				all = append(all, one)
			}
		}
	}
	return all
}

func (u *unstated) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	modellers := u.figure3.Spec.Modelled.Modellers(u.paddings)
	for _, s := range u.figure3.scenarios() {
		for _, one := range u.sweep(s) {
			jobs = append(jobs, one.modelled.Job(one.run(), one.setup, u.paddings[one.padding], modellers(s.of.Model, one.setup), one.padding))
		}
	}
	var scales []*cells.Scale
	for _, v := range u.links {
		scales = append(scales, u.table3.Spec.Varied(v))
	}
	jobs = append(jobs, cells.JobsOf(scales...)...)
	return lab.MakeMissing(ctx, u.ID(), log, p, jobs)
}

// relative are a scenario's throughputs relative to its base's, which is cut and padded alike, with the fixed
// mini-batch and with one that fills memory.
func (u *unstated) relative(log *records.Log, s *scenario) (all []cells.Figure, err error) {
	bases := u.sweep(s.of.base())
	for i, one := range u.sweep(s) {
		values, err := one.modelled.Relative(log, bases[i%len(bases)].run(), one.run(), u.paddings[one.padding])
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			if len(v.Numbers) > 0 {
				all = append(all, cells.Figure{X: v.Numbers[0], Fits: !v.IsStarred()})
			}
		}
	}
	return all, nil
}

func (u *unstated) Report(log, _ *records.Log) (*lab.Report, error) {
	rows := shown.Rows{}
	add := func(of, network, cell string, paper lab.Value, all []cells.Figure) {
		low, high := lab.Absent, lab.Absent
		if len(all) > 0 {
			by := func(a, b cells.Figure) int { return cmp.Compare(a.X, b.X) }
			low, high = slices.MinFunc(all, by).Value(), slices.MaxFunc(all, by).Value()
		}
		rows[""] = append(rows[""], shown.Values{"of": of, "network": network, "cell": cell, "paper": paper, "low": low, "high": high})
	}
	for _, s := range u.figure3.scenarios() {
		if s.Name == s.of.Base {
			continue
		}
		all, err := u.relative(log, s)
		if err != nil {
			return nil, err
		}
		add("Figure 3", s.of.Name, s.Name, s.paper(), all)
	}
	three := &u.table3.Spec.Scale
	var read []*cells.Modelled
	for _, v := range u.links {
		m, err := three.Varied(v).ReadOwn(log)
		if err != nil {
			return nil, err
		}
		read = append(read, m)
	}
	for i, n := range three.Networks {
		for _, c := range three.Cells() {
			if c == three.Base {
				continue
			}
			var all []cells.Figure
			for _, m := range read {
				for _, v := range three.ConventionsOf(n) {
					all = append(all, m.Relative(m.Networks[i], v, c))
				}
			}
			add("Table 3", n.Name, fmt.Sprintf("K = %d", c.K), n.Paper.Of(c).Value.Printed(""), all)
		}
	}
	standard := three.ConventionsOf(three.Networks[0])[0]
	for i, is := range []cells.Convention{standard, u.reading()} {
		for j, m := range read {
			off := 0.0
			for _, n := range m.Networks {
				off += m.Errors(n, is).Last / float64(len(m.Networks))
			}
			rows["links"] = append(rows["links"], shown.Values{"convention": []string{"default", "reading"}[i], "accelerator": cmp.Or(u.links[j].Name, asPublished), "error": off})
		}
	}
	r, err := u.Spec.Spec.Report(u, "", shown.Showing{ID: u.ID(), Title: u.Title(), Data: u.data(), Rows: rows})
	if err == nil {
		r.Tables[0].Notes = append(lab.StarNote(r.Tables[0]), r.Tables[0].Notes...)
	}
	return r, err
}

// data is what the templates of the spec's words have.
func (u *unstated) data() map[string]any {
	return map[string]any{"Spec": &u.Spec, "Default": u.table3.Spec.ConventionsOf(u.table3.Spec.Networks[0])[0], "Reading": u.reading()}
}
