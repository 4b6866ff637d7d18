package gpipe

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// unstatedSpec is the spec of unstated.
type unstatedSpec struct {
	lab.Head `yaml:",inline"`
	M        []int           `yaml:"m" want:"1..65536"` // of Figure 3's pipelines
	Cuts     []cells.CutSpec `yaml:"cuts"`              // of these
	Links    []string        `yaml:"links"`             // of Table 3: as measured, or a variation

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// unstated models cells of Figure 3 and Table 3 under all that the paper leaves open. It has code of its own
// since its cells are those of other experiments.
type unstated struct {
	lab.Base[unstatedSpec]
	figure3 *figure3
	table3  *table3
	links   []accelerator.Variation
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

func (u *unstated) Resolve() *lab.Problem {
	u.links = nil
	for _, name := range u.Spec.Links {
		v := accelerator.Variation{} // as the accelerator's file says
		if name != "as measured" {
			var err error
			if v, err = accelerator.ParseVariation(name); err != nil {
				return lab.At(err, "links")
			}
		}
		u.links = append(u.links, v)
	}
	return nil
}

// swept is a scenario of Figure 3 with one choice of what is open.
type swept struct {
	*scenario
	setup    train.Setup
	modelled figure3Modelled
	as       string // the choice, in the words of the table
}

func (s swept) run() string { return s.scenario.run() + "/" + s.as }

// sweep are a scenario's choices. One without a pipeline has one micro-batch and only its cut.
func (u *unstated) sweep(s *scenario) (all []swept) {
	ms := u.Spec.M
	if s.setup.MicroBatches == 1 {
		ms = []int{1}
	}
	for _, m := range ms {
		for _, cut := range u.Spec.Cuts {
			one := swept{s, cut.Setup(s.setup), u.figure3.Spec.Modelled, fmt.Sprintf("M = %d, %v", m, cut)}
			one.setup.MicroBatches = m
			one.modelled.Batch = max(one.modelled.Batch, m)
			all = append(all, one)
		}
	}
	return all
}

func (u *unstated) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	for _, s := range u.figure3.scenarios() {
		for _, one := range u.sweep(s) {
			jobs = append(jobs, one.modelled.job(one.run(), s.of.Model, one.setup, measuredRates))
		}
	}
	for _, v := range u.links {
		jobs = append(jobs, u.table3.Spec.Varied(v).OwnJobs()...)
	}
	return lab.MakeMissing(ctx, u.ID(), log, p, jobs)
}

// extent is the lowest and the highest of some figures, and of what each is.
type extent struct {
	low, high     float64
	lowAt, highAt string
	n             int
}

func newExtent() extent { return extent{low: math.Inf(1), high: math.Inf(-1)} }

func (e *extent) add(x float64, at string) {
	e.n++
	if x < e.low {
		e.low, e.lowAt = x, at
	}
	if x > e.high {
		e.high, e.highAt = x, at
	}
}

// figureExtent is that of a scenario's throughput relative to its base's, which is cut alike.
func (u *unstated) figureExtent(log *records.Log, s *scenario) (extent, error) {
	e, bases := newExtent(), u.sweep(s.of.base())
	for i, one := range u.sweep(s) {
		values, err := one.modelled.relative(log, bases[i%len(bases)].run(), one.run(), measuredRates)
		if err != nil {
			return e, err
		}
		for j, batch := range []string{"fixed batch", "filled batch"} {
			if len(values[j].Numbers) > 0 {
				e.add(values[j].Numbers[0], one.as+", "+batch)
			}
		}
	}
	return e, nil
}

// joined are cuts in words.
func joined(cuts []cells.CutSpec) string {
	var all []string
	for _, c := range cuts {
		all = append(all, c.String())
	}
	return strings.Join(all, ", ")
}

func (u *unstated) Report(log, _ *records.Log) (*lab.Report, error) {
	t := &lab.Table{
		ID: u.ID(), Title: u.Spec.Title,
		Caption: []string{
			fmt.Sprintf("Lowest, highest: of a cell, relative to the base under the same choice. Figure 3: M of %s, cut by %s, with figure3's mini-batch (or as many examples as there are micro-batches) and with the largest of its multiples that fits. Table 3: every convention of table3, with links %s.",
				lab.JoinWith(u.Spec.M, ", "), joined(u.Spec.Cuts), strings.Join(u.Spec.Links, ", ")),
			"Within: the paper's value lies between the two, so that by this model it could be what the paper measured. It is no more than that: the span says what is not known of the paper's runs, and not what they were.",
		},
	}
	t.Texts("of", "network", "cell")
	t.Numbers("paper", "lowest", "highest")
	t.Texts("within", "lowest at", "highest at")
	t.Numbers("choices")
	add := func(of, network, cell string, paper float64, printed any, e extent) {
		t.Add(of, network, cell, printed, lab.Fixed(e.low, 2), lab.Fixed(e.high, 2), lab.YesOrNo(e.low <= paper && paper <= e.high), e.lowAt, e.highAt, e.n)
	}
	for _, s := range u.figure3.scenarios() {
		if s.Name == s.of.Base {
			continue
		}
		e, err := u.figureExtent(log, s)
		if err != nil {
			return nil, err
		}
		add("Figure 3", s.of.Name, s.Name, s.Paper.Value, s.paper(), e)
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
			e := newExtent()
			for j, m := range read {
				for _, v := range three.ConventionsOf(n) {
					e.add(m.Throughput(m.Networks[i], v, c), fmt.Sprintf("%v, links %s", v, u.Spec.Links[j]))
				}
			}
			add("Table 3", n.Name, fmt.Sprintf("K = %d", c.K), n.Paper.Of(c).Value.Value, n.Paper.Of(c).Value, e)
		}
	}
	within := 0
	for _, row := range t.Rows {
		if row[t.Column("within")].Text == "yes" {
			within++
		}
	}
	t.Notes = []string{fmt.Sprintf("Within: %d of %d.", within, len(t.Rows))}
	return &lab.Report{Tables: []*lab.Table{t}}, nil
}
