package mlperf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"gpipebench/datasets"
	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/timed"
)

// inputSpec is the spec of input-throughput.
//
//lint:ignore U1000 it is the type argument of an embedded field, which staticcheck does not see
type inputSpec struct {
	timed.Profiled[inputProfile] `yaml:",inline"`
	Batch                        int          `yaml:"batch" want:"1..1048576"`
	Window                       int          `yaml:"window" want:"1..65536"`
	Seq                          int          `yaml:"seq" want:"2..4096"`
	Pairs                        int          `yaml:"pairs" want:"1..1000000000"` // of an epoch that was logged
	Logged                       []loggedRate `yaml:"logged"`
	Paper                        lab.Verbatim `yaml:"paper"`
}

// loggedRate is what a number of cores took.
type loggedRate struct {
	Cores   int          `yaml:"cores" want:"1..65536,key"`
	Batch   int          `yaml:"batch" want:"1..1048576"`
	Hosts   int          `yaml:"hosts" want:"1..4096"`
	Seconds lab.Verbatim `yaml:"epoch_seconds"`
}

type inputProfile struct {
	timed.Size `yaml:",inline"`
	Pairs      int `yaml:"pairs" want:"1..1048576"`
	Passes     int `yaml:"passes" want:"1..999"` // over an epoch, in a round
}

// inputThroughput times how fast a host makes GNMT's mini-batches, beside how fast pods took
// them. There is one run.
type inputThroughput struct {
	timed.Compared[inputSpec, inputProfile, struct{}, madePairs]
}

type inputRuns = timed.Comparison[inputProfile, struct{}, madePairs]

func newInputThroughput() (lab.Experiment, error) {
	x := &inputThroughput{}
	x.Runs = func(inputProfile) []struct{} { return []struct{}{{}} }
	x.Name = func(struct{}) string { return "" }
	x.Make, x.Show = x.measure, x.show
	return x, nil
}

func (x *inputThroughput) Resolve() *lab.Problem {
	if len(x.Spec.Logged) == 0 {
		return lab.At(errors.New("want at least one"), "logged")
	}
	for i, l := range x.Spec.Logged {
		if i > 0 && l.Cores <= x.Spec.Logged[i-1].Cores {
			return lab.At(errors.New("want more cores than the one before"), "logged", fmt.Sprint(i), "cores")
		}
	}
	for _, name := range lab.Profiles {
		if p := x.Spec.Profiles[name]; p.Pairs < x.Spec.Batch {
			return lab.At(fmt.Errorf("want %d or more, those of a mini-batch", x.Spec.Batch), "profiles", name, "pairs")
		}
	}
	return nil
}

// madePairs is how fast pairs are made in a round.
type madePairs struct {
	Kept   float64 `json:"kept"`    // pairs a second from ids, the median of the passes
	Texts  float64 `json:"texts"`   // and from texts
	OfText int     `json:"of_text"` // texts that were encoded
	Others float64 `json:"others"`  // cores that other processes took meanwhile; -1: unknown
}

func (s *madePairs) Check() error {
	if !(s.Kept > 0) || !(s.Texts > 0) || s.Texts > s.Kept {
		return fmt.Errorf("%v pairs a second from ids, %v from texts", s.Kept, s.Texts)
	}
	return nil
}

func (s *madePairs) kept() float64  { return s.Kept }
func (s *madePairs) texts() float64 { return s.Texts }

// measure times passes over epochs on one thread.
func (x *inputThroughput) measure(ctx context.Context, p inputProfile, _ struct{}) (*madePairs, error) {
	s, err := datasets.NewMultilingual(datasets.Config{
		Seed: x.Spec.Seed, SeqLen: x.Spec.Seq,
		Multilingual: datasets.MultilingualConfig{Languages: 1, Pairs: p.Pairs}, Translation: datasets.TranslationConfig{Window: x.Spec.Window},
	})
	if err != nil {
		return nil, err
	}
	runtime.GC()
	meter := machine.StartMeter()
	var kept []float64
	batches := s.Batches(datasets.Train, x.Spec.Batch)
	for pass := range p.Passes + 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pairs, start := 0, time.Now()
		for i := range batches {
			b, err := s.Batch(datasets.Train, pass*batches+i, x.Spec.Batch)
			if err != nil {
				return nil, err
			}
			pairs += b.Examples()
		}
		if pass > 0 {
			kept = append(kept, float64(pairs)/time.Since(start).Seconds())
		}
	}
	made := &madePairs{Kept: stats.Median(kept)}
	texts := s.Pairs(0, datasets.Train)
	texts = texts[:min(len(texts), x.Spec.Batch)]
	start := time.Now()
	for _, p := range texts {
		s.Encode(p.SourceText, p.TargetText)
		made.OfText++
	}
	made.Texts = 1 / (time.Since(start).Seconds()/float64(made.OfText) + 1/made.Kept)
	made.Others = meter.Others()
	return made, nil
}

// taken is how many pairs a second cores took.
func (x *inputThroughput) taken(l loggedRate) float64 {
	return float64(x.Spec.Pairs) / l.Seconds.Value
}

func (x *inputThroughput) show(c *inputRuns) error {
	c.Table.Caption = []string{
		fmt.Sprintf("Thousands of pairs a second. Taken: pairs of an epoch over its logged time without the evaluation. Made: on one core of this machine, in mini-batches of %d out of windows of %d, %d pairs of the invented language an epoch; from ids that are kept, and from texts. Median of %d rounds; in brackets the 95%% interval of order statistics.",
			x.Spec.Batch, x.Spec.Window, c.Profile.Pairs, c.Profile.Rounds),
		"Measured made / taken: below 1, one such host is the bottleneck. Cores for one: how many would take what is made, if each took as much as with the row's number.",
	}
	thousands := func(rate float64) lab.Value { return lab.Fixed(rate/1e3, 1) }
	kept := func(c *inputRuns) []float64 { return c.Each(struct{}{}, (*madePairs).kept) }
	texts := c.Each(struct{}{}, (*madePairs).texts)
	over := func(rates []float64, l loggedRate) any {
		relative := make([]float64, len(rates))
		for i, r := range rates {
			relative[i] = r / x.taken(l)
		}
		return lab.Median(relative, func(r float64) lab.Value { return lab.Fixed(r, 2) })[0]
	}
	columns := []timed.Column[loggedRate]{
		timed.Number("cores", func(l loggedRate) any { return l.Cores }),
		timed.Number("mini-batch", func(l loggedRate) any { return l.Batch }),
		timed.Number("hosts in the program", func(l loggedRate) any { return l.Hosts }),
		timed.Number("taken", func(l loggedRate) any { return thousands(x.taken(l)) }),
		timed.Medians("made", thousands, func(loggedRate) []float64 { return kept(c) }),
		timed.Number("measured made / taken", func(l loggedRate) any { return over(kept(c), l) }),
		timed.Number("cores for one", func(l loggedRate) any {
			return lab.Number("%.0f", stats.Median(kept(c))/x.taken(l)*float64(l.Cores))
		}),
		timed.Number("from texts", func(loggedRate) any { return lab.Median(texts, thousands)[0] }),
		timed.Number("texts / taken", func(l loggedRate) any { return over(texts, l) }),
		timed.Number("paper, too many for one", func(l loggedRate) any {
			if float64(l.Cores) != x.Spec.Paper.Value {
				return lab.Absent
			}
			return x.Spec.Paper
		}),
	}
	if c.Before != nil {
		columns = append(columns, timed.Number("made / taken, "+c.Beside, func(l loggedRate) any { return over(kept(c.Before), l) }))
	}
	timed.Fill(c.Table, x.Spec.Logged, columns...)
	panel := &plot.LinePanel{Title: "pairs a second", X: "cores", Y: "thousands", Logarithmic: true}
	var points [3][]plot.Point
	for i, l := range x.Spec.Logged {
		panel.Names = append(panel.Names, fmt.Sprint(l.Cores))
		for j, y := range []float64{x.taken(l), stats.Median(kept(c)), stats.Median(texts)} {
			points[j] = append(points[j], plot.Point{X: float64(i), Y: y / 1e3})
		}
	}
	for j, name := range []string{"taken", "made from ids", "made from texts"} {
		panel.Series = append(panel.Series, plot.Series{Name: name, Dashed: j > 0, Lines: [][]plot.Point{points[j]}})
	}
	c.Panels = []plot.Axes{panel}
	return nil
}
