package mlperf

import (
	"context"
	"fmt"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/reduction"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

type summationSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	Accelerator                      string       `yaml:"accelerator" want:"accelerator"`
	Model                            train.Model  `yaml:"model"`
	Sides                            []int        `yaml:"sides" want:"2..256,ascending"` // of the tori
	Paper                            lab.Verbatim `yaml:"paper"`                         // on the largest
}

// summed is of a torus with a number of cores on a side.
type summed struct {
	Tensors   int                   `json:"tensors"`
	Bytes     int64                 `json:"bytes"`
	Sums      map[string][2]float64 `json:"sum_seconds"`      // reduce, gather, by algorithm
	Copy      float64               `json:"copy_seconds"`     // of all tensors into or from one buffer
	Overheads float64               `json:"overhead_seconds"` // of as many copies as there are tensors
}

// values have the sums of gradients that lie in one buffer, by algorithm, and both parts of that
// on a torus.
func (s summed) values() shown.Values {
	all := shown.Values{"tensors": s.Tensors, "parameters": s.Bytes / 4, "bytes": s.Bytes, "copy": s.Copy, "overheads": s.Overheads}
	for _, k := range []reduction.Kind{reduction.Ring, reduction.Tree, reduction.Torus} {
		all["sum_"+k.String()] = s.Sums[k.String()][0] + s.Sums[k.String()][1]
	}
	all["reduce"], all["gather"] = s.Sums[reduction.Torus.String()][0], s.Sums[reduction.Torus.String()][1]
	return all
}

// gradientSummation is arithmetic on sizes and rates, which is why it needs code.
var gradientSummation = cells.Kind[summationSpec, summed]{
	Check: func(s *summationSpec) *lab.Problem { return lab.At(checkLinks(s.Accelerator), "accelerator") },
	Rows: func(s *summationSpec, _ string) (rows []cells.Row[summed], err error) {
		for i, side := range s.Sides {
			paper := lab.Absent
			if i == len(s.Sides)-1 {
				paper = s.Paper.Printed("")
			}
			rows = append(rows, cells.Row[summed]{
				Has: shown.Values{"cores": side * side, "paper": paper},
				Reads: []cells.Cell[summed]{{Sample: fmt.Sprintf("side=%d", side), Values: summed.values, Make: func(context.Context) (summed, error) {
					return s.sum(side)
				}}},
			})
		}
		return rows, nil
	},
}

func (s *summationSpec) sum(side int) (of summed, err error) {
	on, err := accelerator.Named(s.Accelerator)
	if err != nil {
		return of, err
	}
	sizes, err := s.Model.TrainedSizes()
	if err != nil {
		return of, err
	}
	of = summed{Tensors: len(sizes), Sums: map[string][2]float64{}}
	for _, elements := range sizes {
		of.Bytes += 4 * int64(elements)
	}
	of.Copy, of.Overheads = 2*float64(of.Bytes)/on.Bandwidth, float64(of.Tensors)*on.Overhead
	for _, k := range []reduction.Kind{reduction.Ring, reduction.Tree, reduction.Torus} {
		reduce, gather := reduction.Cost(k, side, side, float64(of.Bytes), on.Link)
		of.Sums[k.String()] = [2]float64{reduce, gather}
	}
	return of, nil
}

// checkLinks refuses an accelerator without links or a memory rate.
func checkLinks(name string) error {
	on, err := accelerator.Named(name)
	if err == nil && (on.Link.Bandwidth == 0 || on.Bandwidth == 0) {
		err = fmt.Errorf("%s has no links or no memory rate: want both", on.Name)
	}
	return err
}
