package gpipe

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// stabilityOutcome is a variant's runs, by seed.
type stabilityOutcome struct {
	stabilityVariant
	runs     []*stabilityRecord
	diverged []int // step, 0: it did not
}

// failures are the steps at which runs diverged.
func (o *stabilityOutcome) failures() []int {
	return slices.DeleteFunc(slices.Clone(o.diverged), func(step int) bool { return step == 0 })
}

// values is what of gives for every run, as the median and, of several, the
// range.
func (o *stabilityOutcome) values(of func(*stabilityRecord) float64) lab.Value {
	var vs []float64
	for _, r := range o.runs {
		if len(r.Losses) > 0 && len(r.Probes) > 0 {
			vs = append(vs, of(r))
		}
	}
	switch len(vs) {
	case 0:
		return lab.Absent
	case 1:
		return stabilityShort(vs[0])
	}
	return lab.Joined("%v %v", stabilityShort(stats.Median(vs)), lab.Interval(stabilityShort(slices.Min(vs)), stabilityShort(slices.Max(vs))))
}

// stabilityShort is a value in three digits, or without a fraction.
func stabilityShort(v float64) lab.Value {
	if v >= 1000 {
		return lab.Fixed(v, 0)
	}
	return lab.Number("%.3g", v)
}

// stabilityMost is the largest of what of gives for a run's probes, of one or more.
func stabilityMost(of func(stabilityProbed) float64) func(*stabilityRecord) float64 {
	return func(r *stabilityRecord) float64 {
		return of(slices.MaxFunc(r.Probes, func(a, b stabilityProbed) int { return cmp.Compare(of(a), of(b)) }))
	}
}

func (s *stability) outcomes(log *records.Log, p stabilitySize) ([]*stabilityOutcome, error) {
	var all []*stabilityOutcome
	for _, v := range s.Spec.Variants {
		o := &stabilityOutcome{stabilityVariant: v}
		for _, seed := range p.Seeds {
			r := &stabilityRecord{}
			if err := log.Get(v.sample(seed), r); err != nil {
				return nil, err
			}
			o.runs = append(o.runs, r)
			step := s.Spec.Diverges.at(r.Losses)
			if r.NonFinite != "" && step == 0 {
				step = len(r.Losses) + 1
			}
			o.diverged = append(o.diverged, step)
		}
		all = append(all, o)
	}
	return all, nil
}

// Scores are, of each variant, whether a run diverged (1) or not (0), and the largest values that
// it went through. A run that ended before its first step has none, which is infinity.
func (s *stability) Scores(log *records.Log) (lab.Scores, error) {
	p, err := lab.ProfileOf(s.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := s.outcomes(log, p)
	if err != nil {
		return nil, err
	}
	scores := lab.Scores{}
	for _, o := range all {
		var diverged []float64
		for _, step := range o.diverged {
			diverged = append(diverged, float64(min(step, 1)))
		}
		scores.Put(o.Name, "diverged", diverged)
		for statistic, of := range map[string]func(*stabilityRecord) float64{
			"gradient norm": func(r *stabilityRecord) float64 { return slices.Max(r.GradNorms) },
			"logit":         stabilityMost(func(p stabilityProbed) float64 { return p.Largest }),
			"kurtosis":      stabilityMost(func(p stabilityProbed) float64 { return p.Hidden }),
		} {
			var values []float64
			for _, r := range o.runs {
				value := math.Inf(1)
				if len(r.Losses) > 0 && len(r.Probes) > 0 {
					value = of(r)
				}
				values = append(values, value)
			}
			scores.Put(o.Name, statistic, values)
		}
	}
	return scores, nil
}

func (s *stability) Report(log, reference *records.Log) (*lab.Report, error) {
	profile, err := lab.ProfileOf(s.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := s.outcomes(log, profile)
	if err != nil {
		return nil, err
	}
	m, d := profile.Training.Model, s.Spec.Diverges
	table := &lab.Table{
		ID: "stability", Title: s.Spec.Title,
		Caption: []string{
			fmt.Sprintf("%d encoder and %d decoder layers of width %d, %d parameters; %g%% of the tokens of the training targets are replaced by random tokens; %s at a learning rate of %g, %d steps of %d pairs; gradients are not clipped. Medians and ranges over %d seeds.",
				m.Layers, m.Layers, m.Dim, all[0].runs[0].Params, 100*profile.Data.Noise, profile.Training.Optimizer, profile.Training.LR, profile.Training.Steps, profile.Training.Batch, len(profile.Seeds)),
			fmt.Sprintf("A run diverges at the first step with a value that is not finite, or at the first step, from step %d on, at which the mean of the last %d losses is above %g nats; guessing costs %.2f nats. Held-out targets have no noise. Logits are measured before they are clipped. Normally distributed values have a kurtosis of 3.",
				d.After, d.Window, d.Loss, all[0].runs[0].Uniform),
		},
		Notes: lab.FewRunsNote(len(profile.Seeds)),
	}
	table.Texts("variant")
	table.Numbers("runs that diverge")
	table.Texts("at step")
	table.Numbers("loss at the end", "held-out loss", "largest gradient norm", "largest logit", "kurtosis of the last states", "of logits")
	curve := &lab.Table{
		ID: "stability-curve", Title: "Stability: each run",
		Caption: []string{"Losses and gradient norms are means over the steps since the previous row."},
	}
	curve.Texts("variant")
	curve.Numbers("seed", "step", "loss", "gradient norm", "largest logit", "kurtosis of the last states", "of logits")
	for _, o := range all {
		failures := o.failures()
		table.Add(o.Name, lab.Joined("%v of %v", len(failures), len(o.runs)), lab.Ints(", ", failures),
			o.values(func(r *stabilityRecord) float64 { return stats.Mean(r.Losses[max(0, len(r.Losses)-d.Window):]) }),
			o.values(func(r *stabilityRecord) float64 { return r.HeldOut }),
			o.values(func(r *stabilityRecord) float64 { return slices.Max(r.GradNorms) }),
			o.values(stabilityMost(func(p stabilityProbed) float64 { return p.Largest })),
			o.values(stabilityMost(func(p stabilityProbed) float64 { return p.Hidden })),
			o.values(stabilityMost(func(p stabilityProbed) float64 { return p.Logits })))
		for i, r := range o.runs {
			every := max(1, len(r.Probes)/20)
			from := 0
			for k := 0; k < len(r.Probes); k += every {
				p := r.Probes[k]
				var loss, norm lab.Value
				if to := min(p.Step, len(r.Losses)); to > from {
					loss, norm = stabilityShort(stats.Mean(r.Losses[from:to])), stabilityShort(stats.Mean(r.GradNorms[from:to]))
					from = to
				}
				curve.Add(o.Name, profile.Seeds[i], p.Step, loss, norm, stabilityShort(p.Largest), stabilityShort(p.Hidden), stabilityShort(p.Logits))
			}
		}
	}
	report := &lab.Report{Tables: []*lab.Table{table, curve}}
	report.Files, err = plot.Figure(s, lab.N(len(profile.Seeds), "seed"), report.Tables, s.panels(all))
	return report, err
}

// panels show what the runs went through, for each variant the median over seeds within
// the range, and where each ended.
func (s *stability) panels(all []*stabilityOutcome) []plot.Axes {
	d := s.Spec.Diverges
	// A point is a mean of the last losses, which is what a run is judged by.
	judged := func(r *stabilityRecord) (line []plot.Point) {
		for i := range r.Losses {
			line = append(line, plot.Point{X: float64(i + 1), Y: stats.Mean(r.Losses[max(0, i+1-d.Window) : i+1])})
		}
		return line
	}
	norms := func(r *stabilityRecord) []plot.Point {
		line, _ := plot.Binned(r.GradNorms, plot.Curve/2)
		return line
	}
	probes := func(of func(stabilityProbed) float64) func(*stabilityRecord) []plot.Point {
		return func(r *stabilityRecord) (line []plot.Point) {
			for _, p := range r.Probes {
				line = append(line, plot.Point{X: float64(p.Step), Y: of(p)})
			}
			return line
		}
	}
	lines := func(p plot.LinePanel, of func(*stabilityRecord) []plot.Point) plot.LinePanel {
		p.X = "step"
		for _, o := range all {
			var runs [][]plot.Point
			for _, r := range o.runs {
				runs = append(runs, of(r))
			}
			p.Series = append(p.Series, plot.MedianAndRange(o.Name, runs))
		}
		return p
	}
	ends := &plot.DotPanel{Title: "the end, and how many diverge", Y: "held-out loss (nats)", Bare: true, Logarithmic: true}
	for _, o := range all {
		name := fmt.Sprintf("%s\n%d of %d", o.Name, len(o.failures()), len(o.runs))
		var losses []float64
		for _, r := range o.runs {
			if r.HeldOut > 0 { // 0: the run had ended
				losses = append(losses, r.HeldOut)
			}
		}
		ends.Add(name, losses)
	}
	return []plot.Axes{
		lines(plot.LinePanel{
			Title: "training", Y: fmt.Sprintf("loss, mean of %d steps (nats)", d.Window), Logarithmic: true, Levels: []plot.Level{{Name: "above:\ndiverges", Y: d.Loss}},
		}, judged),
		ends,
		lines(plot.LinePanel{Title: "logits, before clipping", Y: "largest |logit|", Logarithmic: true}, probes(func(p stabilityProbed) float64 { return p.Largest })),
		lines(plot.LinePanel{Title: "gradients", Y: "norm", Logarithmic: true}, norms),
		lines(plot.LinePanel{Title: "sharpness of the last states", Y: "kurtosis", Logarithmic: true, Levels: []plot.Level{{Name: "normal\nvalues", Y: 3}}}, probes(func(p stabilityProbed) float64 { return p.Hidden })),
	}
}
