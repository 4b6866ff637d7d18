package experiments

import (
	"fmt"
	"slices"
	"strings"
)

// outcome is a variant's runs, by seed.
type outcome struct {
	stabilityVariant
	runs     []*stabilityRun
	diverged []int // step, 0: it did not
}

func (o *outcome) failures() int {
	return len(o.diverged) - len(slices.DeleteFunc(slices.Clone(o.diverged), func(step int) bool { return step > 0 }))
}

// values is what of gives for every run, as the median and, of several, the
// range.
func (o *outcome) values(of func(*stabilityRun) float64) string {
	var vs []float64
	for _, r := range o.runs {
		if len(r.Losses) > 0 && len(r.Probes) > 0 {
			vs = append(vs, of(r))
		}
	}
	switch len(vs) {
	case 0:
		return "-"
	case 1:
		return short(vs[0])
	}
	return fmt.Sprintf("%s [%s, %s]", short(median(vs)), short(slices.Min(vs)), short(slices.Max(vs)))
}

// short writes a value in three digits, or without a fraction.
func short(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func (p probed) most(of func(probed) float64, in []probed) float64 {
	m := of(in[0])
	for _, at := range in {
		m = max(m, of(at))
	}
	return m
}

func (s *stability) outcomes(log *Log, p stabilityProfile) ([]*outcome, error) {
	var all []*outcome
	for _, v := range s.spec.Variants {
		o := &outcome{stabilityVariant: v}
		for _, seed := range p.Seeds {
			r := &stabilityRun{}
			if err := log.Get(v.sample(seed), r); err != nil {
				return nil, err
			}
			o.runs = append(o.runs, r)
			step := s.spec.Diverges.at(r.Losses)
			if r.NonFinite != "" && step == 0 {
				step = len(r.Losses) + 1
			}
			o.diverged = append(o.diverged, step)
		}
		all = append(all, o)
	}
	return all, nil
}

// fewRunsNote warns of rates and medians over so few seeds that the medians have
// no interval.
func fewRunsNote(n int) []string {
	least := leastForInterval(0.95)
	if n >= least {
		return nil
	}
	_, none := rateInterval(0, n)
	all, _ := rateInterval(n, n)
	return []string{fmt.Sprintf("Warning: n = %d. That none of so few runs diverges is within the 95%% interval (Clopper and Pearson) of rates up to %s, that all do of rates from %s. Medians stand with the range of the runs, as a 95%% interval takes %d.",
		n, FormatShare(none, 1), FormatShare(all, 1), least)}
}

// verdict says in one line whether it came out as the paper says.
func (s *stability) verdict(all []*outcome) string {
	var parts []string
	held, failed := false, true
	for _, o := range all {
		parts = append(parts, fmt.Sprintf("%s: %d of %d", o.Name, o.failures(), len(o.runs)))
		if o.Name == s.spec.Cured {
			held = o.failures() == 0
		} else {
			failed = failed && o.failures() == len(o.runs)
		}
	}
	says := "the two cures together do not hold, which is not what the paper says"
	switch {
	case held && failed:
		says = "the two cures together hold and nothing less does, as the paper says"
	case held:
		says = "the two cures together hold, as the paper says, but something less than both holds too"
	}
	return fmt.Sprintf("Verdict: %s. Runs that diverge: %s.", says, strings.Join(parts, "; "))
}

func (s *stability) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(s.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := s.outcomes(log, profile)
	if err != nil {
		return nil, err
	}
	m, d := profile.Training.Model, s.spec.Diverges
	table := &Table{
		ID: "stability", Title: s.spec.Title,
		Caption: []string{
			fmt.Sprintf("%d encoder and %d decoder layers of width %d, %d parameters; %g%% of the training targets' tokens are replaced by any; %s at a learning rate of %g, %d steps of %d pairs, without clipping of gradients. Medians and ranges over %d seeds.",
				m.Layers, m.Layers, m.Dim, all[0].runs[0].Params, 100*profile.Data.Noise, profile.Training.Optimizer, profile.Training.LR, profile.Training.Steps, profile.Training.Batch, len(profile.Seeds)),
			fmt.Sprintf("A run diverges at the first step that is not finite, or from step %d on the first where the mean of the last %d losses is above %g nats; guessing costs %.2f. Held-out targets have no noise. Logits are looked at before they are clipped; a kurtosis of 3 is that of normal values.",
				d.After, d.Window, d.Loss, all[0].runs[0].Uniform),
		},
		Columns: []Column{
			{"variant", true}, {"runs that diverge", false}, {"at step", true}, {"loss at the end", false}, {"held-out loss", false},
			{"largest gradient norm", false}, {"largest logit", false}, {"kurtosis of the last states", false}, {"of logits", false},
		},
		Notes: append([]string{s.verdict(all)}, fewRunsNote(len(profile.Seeds))...),
	}
	curve := &Table{
		ID: "stability-curve", Title: "Stability: each run",
		Caption: []string{"Losses and gradient norms are means of the steps since the row before."},
		Columns: []Column{
			{"variant", true}, {"seed", false}, {"step", false}, {"loss", false}, {"gradient norm", false},
			{"largest logit", false}, {"kurtosis of the last states", false}, {"of logits", false},
		},
	}
	for _, o := range all {
		var steps []string
		for _, step := range o.diverged {
			if step > 0 {
				steps = append(steps, fmt.Sprint(step))
			}
		}
		most := func(of func(probed) float64) func(*stabilityRun) float64 {
			return func(r *stabilityRun) float64 { return probed{}.most(of, r.Probes) }
		}
		table.Add(o.Name, fmt.Sprintf("%d of %d", o.failures(), len(o.runs)), strings.Join(steps, ", "),
			o.values(func(r *stabilityRun) float64 { return mean(r.Losses[max(0, len(r.Losses)-d.Window):]) }),
			o.values(func(r *stabilityRun) float64 { return r.HeldOut }),
			o.values(func(r *stabilityRun) float64 { return slices.Max(r.GradNorms) }),
			o.values(most(func(p probed) float64 { return p.Largest })),
			o.values(most(func(p probed) float64 { return p.Hidden })),
			o.values(most(func(p probed) float64 { return p.Logits })))
		for i, r := range o.runs {
			every := max(1, len(r.Probes)/20)
			from := 0
			for k := 0; k < len(r.Probes); k += every {
				p := r.Probes[k]
				loss, norm := "", ""
				if to := min(p.Step, len(r.Losses)); to > from {
					loss, norm = short(mean(r.Losses[from:to])), short(mean(r.GradNorms[from:to]))
					from = to
				}
				curve.Add(o.Name, fmt.Sprint(profile.Seeds[i]), fmt.Sprint(p.Step), loss, norm, short(p.Largest), short(p.Hidden), short(p.Logits))
			}
		}
	}
	files, err := plotFiles("stability", s.spec.Title, s.panels(all))
	return &Report{Tables: []*Table{table, curve}, Files: files}, err
}

// panels show what the runs went through, a colour for each variant and a line
// for each seed, and where they ended.
func (s *stability) panels(all []*outcome) []axes {
	d := s.spec.Diverges
	// A point is a mean of the last losses, which is what a run is judged by.
	judged := func(r *stabilityRun) (line []point) {
		for i := range r.Losses {
			line = append(line, point{float64(i + 1), mean(r.Losses[max(0, i+1-d.Window) : i+1])})
		}
		return line
	}
	norms := func(r *stabilityRun) (line []point) {
		for i, v := range r.GradNorms {
			line = append(line, point{float64(i + 1), v})
		}
		return line
	}
	probes := func(of func(probed) float64) func(*stabilityRun) []point {
		return func(r *stabilityRun) (line []point) {
			for _, p := range r.Probes {
				line = append(line, point{float64(p.Step), of(p)})
			}
			return line
		}
	}
	lines := func(p panel, of func(*stabilityRun) []point) panel {
		p.x = "step"
		for _, o := range all {
			one := series{name: o.Name}
			for _, r := range o.runs {
				one.lines = append(one.lines, of(r))
			}
			p.series = append(p.series, one)
		}
		return p
	}
	ends := &dotPanel{title: "the end, and how many diverge", y: "held-out loss (nats)", bare: true}
	for _, o := range all {
		ends.names = append(ends.names, fmt.Sprintf("%s\n%d of %d", o.Name, o.failures(), len(o.runs)))
		var losses []float64
		for _, r := range o.runs {
			if r.HeldOut > 0 { // 0: the run had ended
				losses = append(losses, r.HeldOut)
			}
		}
		ends.groups = append(ends.groups, losses)
	}
	return []axes{
		lines(panel{
			title: "training", y: fmt.Sprintf("loss, mean of %d steps (nats)", d.Window), logarithmic: true, levels: []level{{"above:\ndiverges", d.Loss}},
		}, judged),
		ends,
		lines(panel{title: "logits, before clipping", y: "largest |logit|", logarithmic: true}, probes(func(p probed) float64 { return p.Largest })),
		lines(panel{title: "gradients", y: "norm", logarithmic: true}, norms),
		lines(panel{title: "sharpness of the last states", y: "kurtosis", levels: []level{{"normal\nvalues", 3}}}, probes(func(p probed) float64 { return p.Hidden })),
	}
}
