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
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
)

// inputSpec is the spec of input-throughput.
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
type inputThroughput = timed.Compared[inputSpec, inputProfile, struct{}, madePairs]

type inputRuns = timed.Comparison[inputProfile, struct{}, madePairs]

func newInputThroughput() (lab.Experiment, error) {
	x := &inputThroughput{}
	s := &x.Spec
	x.Check, x.Make, x.Show = s.check, s.measure, s.show
	x.Runs = func(inputProfile) []struct{} { return []struct{}{{}} }
	x.Name = func(struct{}) string { return "" }
	return x, nil
}

func (x *inputSpec) check() *lab.Problem {
	for i, l := range x.Logged {
		if i > 0 && l.Cores <= x.Logged[i-1].Cores {
			return lab.At(errors.New("want more cores than the one before"), "logged", fmt.Sprint(i), "cores")
		}
	}
	for _, name := range lab.Profiles {
		if p := x.Profiles[name]; p.Pairs < x.Batch {
			return lab.At(fmt.Errorf("want %d or more, those of a mini-batch", x.Batch), "profiles", name, "pairs")
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
func (x *inputSpec) measure(ctx context.Context, p inputProfile, _ struct{}) (*madePairs, error) {
	s, err := datasets.NewMultilingual(datasets.Config{
		Seed: x.Seed, SeqLen: x.Seq,
		Multilingual: datasets.MultilingualConfig{Languages: 1, Pairs: p.Pairs}, Translation: datasets.TranslationConfig{Window: x.Window},
	})
	if err != nil {
		return nil, err
	}
	runtime.GC()
	meter := machine.StartMeter()
	var kept []float64
	batches := s.Batches(datasets.Train, x.Batch)
	for pass := range p.Passes + 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pairs, start := 0, time.Now()
		for i := range batches {
			b, err := s.Batch(datasets.Train, pass*batches+i, x.Batch)
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
	texts = texts[:min(len(texts), x.Batch)]
	start := time.Now()
	for _, p := range texts {
		s.Encode(p.SourceText, p.TargetText)
		made.OfText++
	}
	made.Texts = 1 / (time.Since(start).Seconds()/float64(made.OfText) + 1/made.Kept)
	made.Others = meter.Others()
	return made, nil
}

func (x *inputSpec) show(c *inputRuns) (shown.Rows, error) {
	var rows []shown.Values
	for _, l := range x.Logged {
		row := shown.Values{
			"cores": l.Cores, "batch": l.Batch, "hosts": l.Hosts, "taken": float64(x.Pairs) / l.Seconds.Number(), "paper": lab.Verbatim(""),
			"made": c.Each(struct{}{}, (*madePairs).kept), "texts": c.Each(struct{}{}, (*madePairs).texts), "before": c.Before.Each(struct{}{}, (*madePairs).kept),
		}
		if float64(l.Cores) == x.Paper.Number() {
			row["paper"] = x.Paper
		}
		rows = append(rows, row)
	}
	return shown.Rows{"": rows}, nil
}
