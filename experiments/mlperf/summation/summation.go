// Package summation models how long gradients take to be added up on tori, with gathers of
// their tensors before the sum or pipelined with it.
package summation

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/reduction"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/nn"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "gradient-summation", Folder: folder, New: lab.New[summation], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Accelerator string       `yaml:"accelerator" want:"accelerator"`
	Model       train.Model  `yaml:"model"`
	Sides       []int        `yaml:"sides" want:"2..256"` // of the tori
	Paper       lab.Verbatim `yaml:"paper"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// summation is arithmetic on sizes and rates.
type summation struct {
	lab.Base[spec]
}

func (s *summation) Resolve() *lab.Problem {
	if len(s.Spec.Sides) == 0 || !slices.IsSorted(s.Spec.Sides) {
		return lab.At(errors.New("want at least one, in ascending order"), "sides")
	}
	on, err := accelerator.Named(s.Spec.Accelerator)
	if err == nil && (on.Link.Bandwidth == 0 || on.Bandwidth == 0) {
		err = fmt.Errorf("%s has no links or no memory rate: want both", on.Name)
	}
	return lab.At(err, "accelerator")
}

func (s *summation) Planned(string) []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"model"}, Run: lab.ModelledRun{Model: s.Spec.Model, Most: 1}}}
}

// kinds are the algorithms, in the order of the columns.
var kinds = []reduction.Kind{reduction.Ring, reduction.Tree, reduction.Torus}

// sample is of a torus with a number of cores on a side. Nothing in it depends on the
// machine.
type sample struct {
	Tensors   int                   `json:"tensors"`
	Bytes     int64                 `json:"bytes"`
	Sums      map[string][2]float64 `json:"sum_seconds"`      // reduce, gather, by algorithm
	Copy      float64               `json:"copy_seconds"`     // of all tensors into or from one buffer
	Overheads float64               `json:"overhead_seconds"` // of as many copies as there are tensors
}

func name(side int) string { return fmt.Sprintf("side=%d", side) }

func (s *summation) Measure(_ context.Context, log *records.Log, p progress.Progress) error {
	on, err := accelerator.Named(s.Spec.Accelerator)
	if err != nil {
		return err
	}
	sizes, err := s.Spec.Model.TrainedSizes()
	if err != nil {
		return err
	}
	layers, err := s.Spec.Model.Build()
	if err != nil {
		return err
	}
	one := sample{Bytes: 4 * nn.CountParams(layers), Tensors: len(sizes)}
	one.Copy = 2 * float64(one.Bytes) / on.Bandwidth
	one.Overheads = float64(one.Tensors) * on.Overhead
	p.Begin(s.ID(), len(s.Spec.Sides))
	defer p.End()
	for _, side := range s.Spec.Sides {
		if log.Has(name(side)) {
			continue
		}
		of := one
		of.Sums = map[string][2]float64{}
		for _, k := range kinds {
			reduce, gather := reduction.Cost(k, side, side, float64(of.Bytes), on.Link)
			of.Sums[k.String()] = [2]float64{reduce, gather}
		}
		if err := log.Add(name(side), 0, of); err != nil {
			return err
		}
		p.Advance(name(side))
	}
	return nil
}

// summed is the time to add up gradients that lie in one buffer.
func (s sample) summed(k reduction.Kind) float64 {
	return s.Sums[k.String()][0] + s.Sums[k.String()][1]
}

// first is the time with tensors gathered before the sum, and scattered after it.
func (s sample) first(k reduction.Kind, overheads bool) float64 {
	t := s.summed(k) + 2*s.Copy
	if overheads {
		t += 2 * s.Overheads
	}
	return t
}

// pipelined is the time with gathers beside the first half and scatters beside the second.
func (s sample) pipelined(k reduction.Kind) float64 {
	return max(s.Sums[k.String()][0], s.Copy) + max(s.Sums[k.String()][1], s.Copy)
}

func (s *summation) Report(log, _ *records.Log) (*lab.Report, error) {
	samples := make([]sample, len(s.Spec.Sides))
	for i, side := range s.Spec.Sides {
		if err := log.Get(name(side), &samples[i]); err != nil {
			return nil, err
		}
	}
	t := &lab.Table{ID: s.ID(), Title: s.Title(), Caption: []string{
		fmt.Sprintf("%d float32 gradients of %v in %d tensors, on tori of cores (%s). Sums: of gradients in one buffer. Gathered first: with 2d, a copy of all tensors into the buffer before, and from it after. Speedup: of doing this beside the sum instead.",
			samples[0].Bytes/4, s.Spec.Model, samples[0].Tensors, s.Spec.Accelerator),
	}}
	t.Numbers("cores", "ring", "tree", "2d", "ring / 2d", "tree / 2d", "gathered first", "pipelined", "speedup", "speedup, with overheads", "paper, more than", "pipelined GB/s")
	const k = reduction.Torus
	for i, side := range s.Spec.Sides {
		of := samples[i]
		paper := lab.Absent
		if i == len(samples)-1 {
			paper = lab.Value{Text: s.Spec.Paper.Text, Numbers: []float64{s.Spec.Paper.Value}}
		}
		t.Add(side*side, lab.Seconds(of.summed(reduction.Ring)), lab.Seconds(of.summed(reduction.Tree)), lab.Seconds(of.summed(k)),
			lab.Fixed(of.summed(reduction.Ring)/of.summed(k), 2), lab.Fixed(of.summed(reduction.Tree)/of.summed(k), 2),
			lab.Seconds(of.first(k, false)), lab.Seconds(of.pipelined(k)), lab.Fixed(of.first(k, false)/of.pipelined(k), 2),
			lab.Fixed(of.first(k, true)/of.pipelined(k), 2), paper, lab.Fixed(float64(of.Bytes)/of.pipelined(k)/1e9, 1))
	}
	r := &lab.Report{Tables: []*lab.Table{t}}
	var err error
	r.Files, err = plot.Files(s.ID(), s.Title(), s.panels(samples))
	return r, err
}

// panels draw the times by cores.
func (s *summation) panels(samples []sample) []plot.Axes {
	p := &plot.LinePanel{Title: "adding up gradients", X: "cores", Y: "milliseconds", FromZero: true}
	for _, side := range s.Spec.Sides {
		p.Names = append(p.Names, fmt.Sprint(side*side))
	}
	line := func(name string, of func(sample) float64) {
		var points []plot.Point
		for i, one := range samples {
			points = append(points, plot.Point{X: float64(i), Y: 1e3 * of(one)})
		}
		p.Series = append(p.Series, plot.Series{Name: name, Lines: [][]plot.Point{points}})
	}
	for _, k := range kinds {
		line(k.String(), func(one sample) float64 { return one.summed(k) })
	}
	line("2d, gathered first", func(one sample) float64 { return one.first(reduction.Torus, false) })
	line("2d, pipelined", func(one sample) float64 { return one.pipelined(reduction.Torus) })
	return []plot.Axes{p}
}
