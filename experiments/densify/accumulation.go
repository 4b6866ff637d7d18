package densify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
)

type accumulationSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	Table                            tiedTable `yaml:"table"`
	Accelerator                      string    `yaml:"accelerator" want:"accelerator"`
	Ranks                            []int     `yaml:"ranks" want:"1..65536,first=1,ascending"`
	Paper                            struct {  // on one number of ranks
		Ranks    int          `yaml:"ranks" want:"2..65536"`
		Gathered lab.Verbatim `yaml:"gathered"` // GB
		Reduced  lab.Verbatim `yaml:"reduced"`  // MB
		Gather   lab.Verbatim `yaml:"gather"`   // milliseconds
		Reduce   lab.Verbatim `yaml:"reduce"`   // milliseconds
	} `yaml:"paper" want:"optional"`
	Limits []gatherLimit `yaml:"limits"`
	First  string        `yaml:"first" want:"name"` // of the limits: the one that stops a gather
}

// gatherLimit is either of what a number of 32 bits counts, or of a node's memory.
type gatherLimit struct {
	Name   string `yaml:"name" want:"name,key"`
	Unit   int    `yaml:"unit" want:"0..8"`    // bytes that count as one
	Ranks  int    `yaml:"ranks" want:"0..64"`  // of a node
	Copies int    `yaml:"copies" want:"0..64"` // that each of them holds
}

// accumulated is what a number of ranks exchange and hold.
type accumulated struct {
	Gathered int64   `json:"gathered_bytes"`
	Indices  int64   `json:"index_bytes"`
	Reduced  int64   `json:"reduced_bytes"`
	Gather   float64 `json:"gather_seconds"` // at least
	Reduce   float64 `json:"reduce_seconds"` // at least
}

// values print amounts in decimal units, as the paper has them.
func (a accumulated) values() shown.Values {
	in := func(n int64, unit float64, letters string) lab.Value {
		return lab.Whole(n, fmt.Sprintf("%.2f %s", float64(n)/unit, letters))
	}
	return shown.Values{
		"gathered": in(a.Gathered, 1e9, "GB"), "reduced": in(a.Reduced, 1e6, "MB"), "indices": in(a.Indices, 1e6, "MB"),
		"ratio": float64(a.Gathered) / float64(a.Reduced), "gather": a.Gather, "reduce": a.Reduce,
	}
}

// accumulation is arithmetic on sizes and rates, which is why it needs code.
var accumulation = cells.Kind[accumulationSpec, accumulated]{
	Check: func(s *accumulationSpec) *lab.Problem {
		if s.Paper.Ranks > 0 && !slices.Contains(s.Ranks, s.Paper.Ranks) {
			return lab.At(errors.New("want one of ranks"), "paper", "ranks")
		}
		for i, l := range s.Limits {
			if counted, held := l.Unit > 0, l.Ranks > 0 && l.Copies > 0; counted == held || counted && l.Ranks+l.Copies > 0 {
				return lab.At(errors.New("want either a unit, or ranks and copies"), "limits", strconv.Itoa(i))
			}
		}
		if !slices.ContainsFunc(s.Limits, func(l gatherLimit) bool { return l.Name == s.First }) {
			return lab.At(errors.New("want the name of one of limits"), "first")
		}
		on, err := accelerator.Named(s.Accelerator)
		if err == nil && on.Link.Bandwidth == 0 {
			err = fmt.Errorf("%s has no links: want an accelerator with a link", on.Name)
		}
		return lab.At(err, "accelerator")
	},
	Rows: func(s *accumulationSpec, _ string) (rows []cells.Row[accumulated], err error) {
		on, err := accelerator.Named(s.Accelerator)
		if err != nil {
			return nil, err
		}
		link, p := clock.Link{Bandwidth: on.Link.Bandwidth}, s.Paper // a bound has no latency
		for _, n := range s.Ranks {
			rows = append(rows, cells.Row[accumulated]{
				Has: shown.Values{
					"ranks": n, "several": n > 1, "printed": n == p.Ranks, "table": s.Table.Rows(), "rate": fmt.Sprintf("%.1f", on.Link.Bandwidth/1e9), "on": on.Name,
					"paper_gathered": p.Gathered.Number(), "paper_reduced": p.Reduced.Number(), "paper_gather": p.Gather.Number() / 1e3, "paper_reduce": p.Reduce.Number() / 1e3,
				},
				Reads: []cells.Cell[accumulated]{{Sample: fmt.Sprintf("ranks=%d", n), Values: accumulated.values, Make: func(context.Context) (accumulated, error) {
					return accumulated{
						s.Table.GatheredBytes(n), s.Table.IndexBytes(n), s.Table.DenseBytes(), s.Table.GatherSeconds(n, link), reduceSeconds(n, s.Table.DenseBytes(), link),
					}, nil
				}}},
			})
		}
		for _, l := range s.Limits {
			var most int
			var of string
			if l.Unit > 0 {
				most, of = s.Table.MostCounted(l.Unit), fmt.Sprintf("2^31 - 1, in units of bytes: %d", l.Unit)
			} else {
				most, of = s.Table.MostHeld(on.Memory, l.Ranks, l.Copies), fmt.Sprintf("%d GiB a node, %d ranks of %d copies", on.Memory>>30, l.Ranks, l.Copies)
			}
			above := lab.Absent
			for _, n := range s.Ranks {
				if n <= most {
					above = lab.Whole(int64(n), strconv.Itoa(n))
				}
			}
			rows = append(rows, cells.Row[accumulated]{Of: "limits", Has: shown.Values{"limit": l.Name, "of": of, "most": most, "above": above, "first": l.Name == s.First}})
		}
		return rows, nil
	},
}
