package trained

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpipebench/datasets"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// What trials of translators have by language, and what translations without a network score.

// withoutNetwork is what these score on what is held out of each language, by BLEU.
type withoutNetwork struct {
	Copy       []float64 `json:"copy"`
	Dictionary []float64 `json:"dictionary"`
	Data       string    `json:"data_sha256,omitempty"` // as in Trial
}

// Check wants a score of each for the same languages.
func (w *withoutNetwork) Check() error {
	if len(w.Copy) == 0 || len(w.Copy) != len(w.Dictionary) {
		return fmt.Errorf("%d languages copied and %d looked up", len(w.Copy), len(w.Dictionary))
	}
	return nil
}

func copyOf(w *withoutNetwork) []float64       { return w.Copy }
func dictionaryOf(w *withoutNetwork) []float64 { return w.Dictionary }

// withoutNetworks are they by seed.
type withoutNetworks []*withoutNetwork

// bleu are the scores of one of them for a language, from 1, or the mean over all (0), by seed.
func (ws withoutNetworks) bleu(language int, of func(*withoutNetwork) []float64) (all []float64) {
	for _, w := range ws {
		if scores := of(w); language > 0 {
			all = append(all, scores[language-1])
		} else {
			all = append(all, stats.Mean(scores))
		}
	}
	return all
}

// baseline is the arm whose samples are translations without a network: the first one's sentences.
func (f *Frame) baseline(size Size) Arm {
	a := f.arm(size, f.Arms[0], 0)
	a.Name = "without a network"
	return a
}

func (f *Frame) measureBaselines(ctx context.Context, size Size, log *records.Log, p progress.Progress) error {
	if !f.Baselines {
		return nil
	}
	a := f.baseline(size)
	if err := lab.Present(a.Training(size.Seeds[0]).Data); err != nil {
		return fmt.Errorf("%s, profile %s: %w", f.Experiment, log.Key.Profile, err)
	}
	var jobs []lab.Job
	for _, seed := range size.Seeds {
		jobs = append(jobs, lab.Making(a.Sample(seed), seed, func(context.Context) (*withoutNetwork, error) {
			t := a.Training(seed)
			s, err := t.Source()
			if err != nil {
				return nil, err
			}
			all := s.(*datasets.Translation).Baselines()
			return &withoutNetwork{all[0].Languages, all[1].Languages, t.DataDigest(s)}, nil
		}))
	}
	return lab.MakeMissing(ctx, f.Experiment+": translations without a network", log, p, jobs)
}

// readBaselines reads what translations without a network score; nil: the spec asks for none.
func (f *Frame) readBaselines(size Size, log *records.Log) (all withoutNetworks, err error) {
	for _, seed := range size.Seeds {
		if !f.Baselines {
			break
		}
		w := &withoutNetwork{}
		if err := log.Get(f.baseline(size).Sample(seed), w); err != nil {
			return nil, err
		}
		if n := len(size.Data.Names()); len(w.Copy) != n {
			return nil, log.Strange(f.baseline(size).Sample(seed), fmt.Errorf("%d languages: want %d", len(w.Copy), n))
		}
		all = append(all, w)
	}
	return all, nil
}

func nats(l train.LanguageScore) float64 { return l.Loss }
func bleu(l train.LanguageScore) float64 { return l.BLEU }

// ofLanguage are an arm's scores of a language, from 0, by seed; nil: it does not see it.
func (r *Result) ofLanguage(i int, score func(train.LanguageScore) float64) []float64 {
	switch {
	case r.Only == i+1:
		i = 0
	case r.Only > 0:
		return nil
	}
	return r.each(func(run *Trial) float64 { return score(run.Languages[i]) })
}

// exposure divides how many training examples an arm sees by how many of the same languages the
// baseline sees: 1 if a translator of one language sees it as often as the one of all does.
func (r *Reporting) exposure(a *Result) float64 {
	base := r.Results[0]
	t, of := a.Arm.Training(r.Size.Seeds[0]), base.Arm.Training(r.Size.Seeds[0])
	share := 1.0
	if a.Only > 0 {
		share = base.Runs[0].Languages[a.Only-1].Share
	}
	return float64(t.Steps*t.Batch) / (share * float64(of.Steps*of.Batch))
}

// endOf are the training losses of the last twentieth of an arm's steps, by seed; nil: a record is from
// before there were curves.
func (t Trials) endOf() (all []float64) {
	for _, r := range t.Runs {
		n := len(r.Curve)
		if n == 0 {
			return nil
		}
		all = append(all, stats.Mean(r.Curve[n-max(1, n/20):]))
	}
	return all
}

// checkLanguages wants scores of the languages that an arm sees.
func (r *Result) checkLanguages(size Size) error {
	want := 1
	if r.Only == 0 {
		want = len(size.Data.Names())
	}
	for _, run := range r.Runs {
		if len(run.Languages) != want {
			return fmt.Errorf("scores of %d languages, want %d", len(run.Languages), want)
		}
	}
	return nil
}

// drawCurves draws the training losses of the arms that see all languages: means over seeds, over the
// steps.
func drawCurves(r *Reporting, p PanelSpec) []plot.Axes {
	out := plot.LinePanel{Title: p.Title, X: "millions of target tokens", Y: p.Y, FromZero: p.Zero}
	for _, a := range r.Results {
		if a.Only > 0 || len(a.Runs[0].Curve) == 0 || p.Arms != nil && !slices.Contains(p.Arms, a.ArmSpec.Name) {
			continue
		}
		var lines [][]plot.Point
		for _, run := range a.Runs {
			var line []plot.Point
			for i, loss := range run.Curve {
				line = append(line, plot.Point{X: float64(run.Learnt) / 1e6 * float64(i+1) / float64(len(run.Curve)), Y: loss})
			}
			lines = append(lines, line)
		}
		out.Series = append(out.Series, plot.MedianAndRange(strings.Join(strings.Fields(a.axis()), " "), lines))
	}
	return []plot.Axes{out}
}
