package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe/partition"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
)

// Cutting cuts measured layers into K stages by every rule.
type Cutting struct {
	Costs string // a file of a Profile, a row for each layer
	K     int
	Limit int64 // the most bytes that a stage may have; 0: any number
}

// Cuts are the outcome.
type Cuts struct {
	Layers int   `json:"layers"`
	Ways   []Cut `json:"cuts"`

	// Best is the cut whose slowest stage is the fastest of those that fit, and Stages what its
	// stages come to; nil: none fits.
	Best   *Cut     `json:"best"`
	Stages *Profile `json:"-"`
}

// Cut is one way. Milliseconds and bytes are for one micro-batch.
type Cut struct {
	Rule       string  `json:"rule"`
	By         string  `json:"by"` // time or bytes
	Sizes      []int   `json:"sizes"`
	Slowest    float64 `json:"slowest_ms"` // the stage that sets the pace
	Efficiency float64 `json:"efficiency"` // mean over slowest
	Fullest    float64 `json:"fullest_bytes,omitempty"`
	Fits       bool    `json:"fits"`
	Note       string  `json:"note,omitempty"`
}

// Run reads the file and cuts by times, and by sizes if some are above 0. With a limit there is also
// the fastest cut within it. Times that are all 0, and a limit that no cut keeps, are errors.
func (c Cutting) Run() (*Cuts, error) {
	p, err := ReadProfile(c.Costs)
	if err != nil {
		return nil, err
	}
	if c.Limit > 0 && !p.Sized {
		return nil, failure.Usagef("a memory limit for layers without sizes: want a column bytes")
	}
	if c.K > len(p.Names) {
		return nil, failure.Usagef("%d partitions of %d layers: want at most one partition a layer", c.K, len(p.Names))
	}
	times := make([]float64, len(p.Names))
	for i, d := range p.Times {
		times[i] = d.F + d.I + d.W
	}
	if slices.Max(times) == 0 {
		return nil, fmt.Errorf("%s: all of f, b and w are 0: want a layer that takes time", files.Printable(c.Costs))
	}
	r := &Cuts{Layers: len(p.Names)}
	add := func(rule, by string, of partition.Result) {
		stages := p.stages(of.Sizes)
		cut := Cut{
			Rule: rule, By: by, Sizes: of.Sizes, Note: of.Moved,
			Slowest: slices.Max(partition.StageCosts(times, of.Sizes)), Efficiency: partition.Efficiency(times, of.Sizes),
			Fullest: slices.Max(stages.Bytes),
		}
		cut.Fits = c.Limit == 0 || cut.Fullest <= float64(c.Limit)
		r.Ways = append(r.Ways, cut)
		if cut.Fits && (r.Best == nil || cut.Slowest < r.Best.Slowest) {
			r.Best, r.Stages = &cut, stages
		}
	}
	for _, by := range []struct {
		name string
		of   []float64
	}{{"time", times}, {"bytes", p.Bytes}} {
		if slices.Max(by.of) == 0 { // sizes that are missing, or all 0
			continue
		}
		for _, rule := range []partition.Partitioner{partition.MinMax, partition.MinVariance, partition.Lingvo, partition.Block} {
			cut, err := partition.Split(rule, by.of, c.K)
			if err != nil {
				return nil, plain(err)
			}
			add(rule.String(), by.name, cut)
		}
	}
	if c.Limit > 0 {
		within, err := partition.MinMaxUnderCapacity(times, c.K, func(from, to int) bool {
			sum := 0.0
			for _, b := range p.Bytes[from:to] {
				sum += b
			}
			return sum <= float64(c.Limit)
		})
		if err != nil {
			return nil, plain(err)
		}
		add(partition.MinMax.String()+" within the limit", "time", within)
	}
	return r, nil
}

// plain is an error without the name of the package that it is from.
func plain(err error) error {
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "partition: "), "schedule: "))
}
