// Package input times how fast a host makes GNMT's mini-batches, beside how fast pods took
// them.
package input

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"runtime"
	"time"

	"gpipebench/datasets"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "input-throughput", Folder: folder, New: lab.New[input], Command: "bucketing"}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	Batch    int          `yaml:"batch" want:"1..1048576"`
	Window   int          `yaml:"window" want:"1..65536"`
	Seq      int          `yaml:"seq" want:"2..4096"`
	Pairs    int          `yaml:"pairs" want:"1..1000000000"` // of an epoch that was logged
	Logged   []logged     `yaml:"logged"`
	Paper    lab.Verbatim `yaml:"paper"`

	Profiles map[string]profile `yaml:"profiles"`
}

// logged is what a number of cores took.
type logged struct {
	Cores   int          `yaml:"cores" want:"1..65536,key"`
	Batch   int          `yaml:"batch" want:"1..1048576"`
	Hosts   int          `yaml:"hosts" want:"1..4096"`
	Seconds lab.Verbatim `yaml:"epoch_seconds"`
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Pairs    int      `yaml:"pairs" want:"1..1048576"`
	Passes   int      `yaml:"passes" want:"1..999"` // over an epoch, in a round
	Rounds   int      `yaml:"rounds" want:"1..1000"`
}

type input struct {
	lab.Base[spec]
}

func (x *input) Resolve() *lab.Problem {
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

func (x *input) config(p profile) datasets.Config {
	return datasets.Config{
		Seed: x.Spec.Seed, SeqLen: x.Spec.Seq,
		Multilingual: datasets.MultilingualConfig{Languages: 1, Pairs: p.Pairs}, Translation: datasets.TranslationConfig{Window: x.Spec.Window},
	}
}

// Sample is a round.
type Sample struct {
	Kept   float64 `json:"kept"`    // pairs a second from ids, the median of the passes
	Texts  float64 `json:"texts"`   // and from texts
	OfText int     `json:"of_text"` // texts that were encoded
	Others float64 `json:"others"`  // cores that other processes took meanwhile; -1: unknown
}

func (s *Sample) Check() error {
	if !(s.Kept > 0) || !(s.Texts > 0) || s.Texts > s.Kept {
		return fmt.Errorf("%v pairs a second from ids, %v from texts", s.Kept, s.Texts)
	}
	return nil
}

func sampleName(round int) string { return fmt.Sprintf("round=%d", round) }

// measurement is that of a profile.
type measurement struct {
	*input
	profile
}

func (x *input) Repeated(profile string) (timed.Repeated, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, profile)
	return &measurement{x, p}, err
}

func (x *input) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return timed.Measure(ctx, x, log, p)
}

func (m *measurement) Samples() (names [][]string) {
	for round := range m.Rounds {
		names = append(names, []string{sampleName(round)})
	}
	return names
}

// Round times passes over epochs on one thread.
func (m *measurement) Round(ctx context.Context, round int, log *records.Log) error {
	if log.Has(sampleName(round)) {
		return nil
	}
	s, err := datasets.NewMultilingual(m.config(m.profile))
	if err != nil {
		return err
	}
	runtime.GC()
	meter := machine.StartMeter()
	var kept []float64
	batches := s.Batches(datasets.Train, m.Spec.Batch)
	for pass := range m.Passes + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		pairs, start := 0, time.Now()
		for i := range batches {
			b, err := s.Batch(datasets.Train, pass*batches+i, m.Spec.Batch)
			if err != nil {
				return err
			}
			pairs += b.Examples()
		}
		if pass > 0 {
			kept = append(kept, float64(pairs)/time.Since(start).Seconds())
		}
	}
	made := Sample{Kept: stats.Median(kept)}
	texts := s.Pairs(0, datasets.Train)
	texts = texts[:min(len(texts), m.Spec.Batch)]
	start := time.Now()
	for _, p := range texts {
		s.Encode(p.SourceText, p.TargetText)
		made.OfText++
	}
	made.Texts = 1 / (time.Since(start).Seconds()/float64(made.OfText) + 1/made.Kept)
	made.Others = meter.Others()
	return log.Add(sampleName(round), m.Spec.Seed, made)
}

// taken is how many pairs a second cores took.
func (x *input) taken(l logged) float64 { return float64(x.Spec.Pairs) / l.Seconds.Value }

func (x *input) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	kept, texts, err := x.rates(log)
	if err != nil {
		return nil, err
	}
	thousands := func(rate float64) lab.Value { return lab.Fixed(rate/1e3, 1) }
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("Thousands of pairs a second. Taken: pairs of an epoch over its logged time without the evaluation. Made: on one core of this machine, in mini-batches of %d out of windows of %d, %d pairs of the invented language an epoch; from ids that are kept, and from texts. Median of %d rounds; in brackets the 95%% interval of order statistics.",
			x.Spec.Batch, x.Spec.Window, p.Pairs, p.Rounds),
		"Measured made / taken: below 1, one such host is the bottleneck. Cores for one: how many would take what is made, if each took as much as with the row's number.",
	}}
	t.Numbers("cores", "mini-batch", "hosts in the program", "taken", "made", "95%, made", "measured made / taken", "cores for one", "from texts", "texts / taken", "paper, too many for one")
	if reference != nil {
		t.Numbers("made / taken, " + lab.ReferenceName(log, reference))
	}
	lines := []plot.Series{{Name: "taken"}, {Name: "made from ids", Dashed: true}, {Name: "made from texts", Dashed: true}}
	panel := &plot.LinePanel{Title: "pairs a second", X: "cores", Y: "thousands", Logarithmic: true}
	var points [3][]plot.Point
	for i, l := range x.Spec.Logged {
		taken := x.taken(l)
		over := func(rates []float64) lab.Value {
			relative := make([]float64, len(rates))
			for i, r := range rates {
				relative[i] = r / taken
			}
			return lab.Median(relative, func(r float64) lab.Value { return lab.Fixed(r, 2) })[0]
		}
		paper := lab.Absent
		if float64(l.Cores) == x.Spec.Paper.Value {
			paper = lab.Value{Text: x.Spec.Paper.Text, Numbers: []float64{x.Spec.Paper.Value}}
		}
		row := []any{l.Cores, l.Batch, l.Hosts, thousands(taken), lab.Median(kept, thousands), over(kept), lab.Number("%.0f", stats.Median(kept)/taken*float64(l.Cores)),
			lab.Median(texts, thousands)[0], over(texts), paper}
		if reference != nil {
			of := lab.Absent
			if rates, _, err := x.rates(reference); err == nil {
				of = over(rates)
			}
			row = append(row, of)
		}
		t.Add(row...)
		panel.Names = append(panel.Names, fmt.Sprint(l.Cores))
		for j, y := range []float64{taken, stats.Median(kept), stats.Median(texts)} {
			points[j] = append(points[j], plot.Point{X: float64(i), Y: y / 1e3})
		}
	}
	for j := range lines {
		lines[j].Lines = [][]plot.Point{points[j]}
	}
	panel.Series = lines
	r, err := x.Repeated(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	t.Notes = append(lab.FewRoundsNote(p.Rounds), timed.ProcessNote(r, log))
	if reference != nil {
		t.Notes = append(t.Notes, lab.ReferenceNote(reference))
	}
	report := &lab.Report{Tables: []*lab.Table{t}}
	report.Files, err = plot.Files(x.ID(), x.Title(), []plot.Axes{panel})
	return report, err
}

// rates are those of a log's rounds.
func (x *input) rates(log *records.Log) (kept, texts []float64, err error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, nil, err
	}
	for round := range p.Rounds {
		var s Sample
		if err := log.Get(sampleName(round), &s); err != nil {
			return nil, nil, err
		}
		kept, texts = append(kept, s.Kept), append(texts, s.Texts)
	}
	return kept, texts, nil
}
