// Package accumulation computes what it takes to accumulate the gradient of a tied table
// over ranks, gathered and reduced.
package accumulation

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/experiments/densify/accumulate"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "accumulation", Folder: folder, New: lab.New[accumulation]}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Table       accumulate.Table `yaml:"table"`
	Accelerator string           `yaml:"accelerator" want:"accelerator"`
	Ranks       []int            `yaml:"ranks" want:"1..65536"`
	Paper       paper            `yaml:"paper"`
	Limits      []limit          `yaml:"limits"`
	First       string           `yaml:"first" want:"name"` // of the limits: the one that stops a gather

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// paper is what was measured on one number of ranks.
type paper struct {
	Ranks    int          `yaml:"ranks" want:"2..65536"`
	Gathered lab.Verbatim `yaml:"gathered"` // GB
	Reduced  lab.Verbatim `yaml:"reduced"`  // MB
	Gather   lab.Verbatim `yaml:"gather"`   // milliseconds
	Reduce   lab.Verbatim `yaml:"reduce"`   // milliseconds
}

// limit is either of what a number of 32 bits counts, or of a node's memory.
type limit struct {
	Name   string `yaml:"name" want:"name,key"`
	Unit   int    `yaml:"unit" want:"0..8"`    // bytes that count as one
	Ranks  int    `yaml:"ranks" want:"0..64"`  // of a node
	Copies int    `yaml:"copies" want:"0..64"` // that each of them holds
}

// accumulation is arithmetic on sizes and rates.
type accumulation struct {
	lab.Base[spec]
}

func (a *accumulation) Resolve() *lab.Problem {
	if a.Spec.Ranks[0] != 1 || !slices.IsSorted(a.Spec.Ranks) {
		return lab.At(errors.New("want 1 first, in ascending order"), "ranks")
	}
	if !slices.Contains(a.Spec.Ranks, a.Spec.Paper.Ranks) {
		return lab.At(errors.New("want one of ranks"), "paper", "ranks")
	}
	for i, l := range a.Spec.Limits {
		if counted, held := l.Unit > 0, l.Ranks > 0 && l.Copies > 0; counted == held || counted && l.Ranks+l.Copies > 0 {
			return lab.At(errors.New("want either a unit, or ranks and copies"), "limits", fmt.Sprint(i))
		}
	}
	if !slices.ContainsFunc(a.Spec.Limits, func(l limit) bool { return l.Name == a.Spec.First }) {
		return lab.At(errors.New("want the name of one of limits"), "first")
	}
	on, err := accelerator.Named(a.Spec.Accelerator)
	if err == nil && on.Link.Bandwidth == 0 {
		err = fmt.Errorf("%s has no links: want an accelerator with a link", on.Name)
	}
	return lab.At(err, "accelerator")
}

// sample is what so many ranks accumulate. Nothing in it depends on the machine.
type sample struct {
	Gathered int64   `json:"gathered_bytes"`
	Indices  int64   `json:"index_bytes"`
	Reduced  int64   `json:"reduced_bytes"`
	Gather   float64 `json:"gather_seconds"` // at least
	Reduce   float64 `json:"reduce_seconds"` // at least
}

func name(ranks int) string { return fmt.Sprintf("ranks=%d", ranks) }

func (a *accumulation) Measure(_ context.Context, log *records.Log, p progress.Progress) error {
	on, err := accelerator.Named(a.Spec.Accelerator)
	if err != nil {
		return err
	}
	link := timeline.Link{Bandwidth: on.Link.Bandwidth} // a bound has no latency
	p.Begin(a.ID(), len(a.Spec.Ranks))
	defer p.End()
	for _, n := range a.Spec.Ranks {
		if log.Has(name(n)) {
			continue
		}
		t := a.Spec.Table
		s := sample{
			Gathered: t.GatheredBytes(n), Indices: t.IndexBytes(n), Reduced: t.DenseBytes(),
			Gather: t.GatherSeconds(n, link), Reduce: accumulate.ReduceSeconds(n, t.DenseBytes(), link),
		}
		if err := log.Add(name(n), 0, s); err != nil {
			return err
		}
		p.Advance(name(n))
	}
	return nil
}

func (a *accumulation) Report(log, _ *records.Log) (*lab.Report, error) {
	samples := make([]sample, len(a.Spec.Ranks))
	for i, n := range a.Spec.Ranks {
		if err := log.Get(name(n), &samples[i]); err != nil {
			return nil, err
		}
	}
	on, err := accelerator.Named(a.Spec.Accelerator)
	if err != nil {
		return nil, err
	}
	r := &lab.Report{Tables: []*lab.Table{a.bytes(samples), a.times(samples, on), a.limits(on), a.rules()}}
	r.Files, err = plot.Files(a.ID(), a.Title(), a.panels(samples))
	return r, err
}

// in prints an amount in a decimal unit, as the paper has it.
func in(n int64, unit float64, letters string) lab.Value {
	return lab.Whole(n, fmt.Sprintf("%.2f %s", float64(n)/unit, letters))
}

// only is a value for one number of ranks, and nothing for others.
func (a *accumulation) only(ranks int, v lab.Value) lab.Value {
	if ranks != a.Spec.Paper.Ranks {
		return lab.Absent
	}
	return v
}

func (a *accumulation) bytes(samples []sample) *lab.Table {
	of, paper := a.Spec.Table, a.Spec.Paper
	t := &lab.Table{ID: a.ID(), Title: a.Title(), Caption: []string{
		fmt.Sprintf("Bytes of the gradient that every rank has in the end, of a table of %d rows and %d columns in float32; a rank's mini-batch has %d tokens of the source and %d of the target. Gathered: %d rows from each rank, all of the table's for the softmax and one a token. Indices: 4 bytes a row, beside the gathered rows; the paper does not count them.",
			of.Vocab, of.Dim, of.Source, of.Target, of.Rows()),
	}}
	t.Numbers("ranks", "gathered", "reduced", "gathered / reduced", "indices", "paper, gathered", "paper, reduced", "paper, ratio")
	for i, n := range a.Spec.Ranks {
		s := samples[i]
		t.Add(n, in(s.Gathered, 1e9, "GB"), in(s.Reduced, 1e6, "MB"), lab.Fixed(float64(s.Gathered)/float64(s.Reduced), 2), in(s.Indices, 1e6, "MB"),
			a.only(n, lab.Number("%.1f GB", paper.Gathered.Value)), a.only(n, lab.Number("%.0f MB", paper.Reduced.Value)),
			a.only(n, lab.Fixed(1e3*paper.Gathered.Value/paper.Reduced.Value, 1)))
	}
	return t
}

func (a *accumulation) times(samples []sample, on *accelerator.Accelerator) *lab.Table {
	t := &lab.Table{ID: a.ID() + "-times", Title: "The least time of an accumulation", Caption: []string{
		fmt.Sprintf("Along a ring of ranks over links of %.1f GB/s in one direction (%s), without latency: all but a rank's own rows for the gather, twice (P - 1)/P of the table for the reduction. No algorithm is faster. The paper's times are measured.", on.Link.Bandwidth/1e9, on.Name),
	}}
	t.Numbers("ranks", "gather", "reduce", "gather / reduce", "paper, gather", "paper, reduce", "paper, ratio", "gather, paper / least", "reduce, paper / least")
	for i, n := range a.Spec.Ranks {
		s, ratio := samples[i], lab.Absent
		if n > 1 {
			ratio = lab.Fixed(s.Gather/s.Reduce, 1)
		}
		gather, reduce := a.Spec.Paper.Gather.Value/1e3, a.Spec.Paper.Reduce.Value/1e3
		t.Add(n, lab.Seconds(s.Gather), lab.Seconds(s.Reduce), ratio,
			a.only(n, lab.Seconds(gather)), a.only(n, lab.Seconds(reduce)), a.only(n, lab.Fixed(gather/reduce, 1)),
			a.only(n, lab.Fixed(gather/s.Gather, 2)), a.only(n, lab.Fixed(reduce/s.Reduce, 2)))
	}
	return t
}

func (a *accumulation) limits(on *accelerator.Accelerator) *lab.Table {
	t := &lab.Table{ID: a.ID() + "-limits", Title: "Limits of a gather", Caption: []string{
		"The most ranks under each limit, and the most among those above. Nothing but the gathered rows is counted: a training has its weights and activations as well. Which limit stops the gather was fixed before anything was computed.",
	}}
	t.Texts("limit", "of")
	t.Numbers("most ranks", "most of the above")
	t.Texts("stops the gather")
	for _, l := range a.Spec.Limits {
		var most int
		var of string
		if l.Unit > 0 {
			most, of = a.Spec.Table.MostCounted(l.Unit), fmt.Sprintf("2^31 - 1, in units of bytes: %d", l.Unit)
		} else {
			most, of = a.Spec.Table.MostHeld(on.Memory, l.Ranks, l.Copies), fmt.Sprintf("%d GiB a node, %d ranks of %d copies", on.Memory>>30, l.Ranks, l.Copies)
		}
		above := lab.Absent
		for _, n := range a.Spec.Ranks {
			if n <= most {
				above = lab.Number("%.0f", float64(n))
			}
		}
		t.Add(l.Name, of, most, above, lab.YesOrNo(l.Name == a.Spec.First))
	}
	return t
}

// mostGradients is the most gradients of one parameter in the table of rules: a tied table
// has three.
const mostGradients = 3

func (a *accumulation) rules() *lab.Table {
	t := &lab.Table{ID: a.ID() + "-rules", Title: "How gradients of one parameter are accumulated", Caption: []string{
		"Algorithm 1 is TensorFlow's rule, Algorithm 2 the one that the paper proposes. Over ranks: what Horovod makes of the result of Algorithm 1, without and with its option sparse_as_dense. The order of the gradients does not matter. A tied table has one dense gradient, of the softmax, and two sparse ones, of the embeddings.",
	}}
	t.Texts("gradients", "Algorithm 1", "Algorithm 2", "over ranks", "over ranks, as dense")
	for n := 1; n <= mostGradients; n++ {
		for sparse := range n + 1 {
			var in []accumulate.Kind
			var names []string
			for i := range n {
				k := accumulate.Dense
				if i >= n-sparse {
					k = accumulate.Sparse
				}
				in, names = append(in, k), append(names, k.String())
			}
			one, two := accumulate.TensorFlow(in), accumulate.Proposed(in)
			t.Add(strings.Join(names, ", "), says(one), says(two), accumulate.Exchange(one.Out[0], false).String(), accumulate.Exchange(one.Out[0], true).String())
		}
	}
	return t
}

// says is an outcome in a few words.
func says(o accumulate.Outcome) string {
	if o.Converted == 0 {
		return o.Way.String()
	}
	to := map[accumulate.Way]string{accumulate.Reduce: "dense", accumulate.Gather: "rows"}[o.Way]
	return fmt.Sprintf("%v, %d turned into %s", o.Way, o.Converted, to)
}

// panels draw bytes and least times by ranks.
func (a *accumulation) panels(samples []sample) []plot.Axes {
	var names []string
	for _, n := range a.Spec.Ranks {
		names = append(names, fmt.Sprint(n))
	}
	panel := func(title, y string, gather, reduce func(sample) float64) *plot.LinePanel {
		line := func(of func(sample) float64) [][]plot.Point {
			var points []plot.Point
			for i, s := range samples {
				points = append(points, plot.Point{X: float64(i), Y: of(s)})
			}
			return [][]plot.Point{points}
		}
		return &plot.LinePanel{Title: title, X: "ranks", Y: y, Logarithmic: true, Names: names, Series: []plot.Series{
			{Name: "gathered", Lines: line(gather)}, {Name: "reduced", Lines: line(reduce)},
		}}
	}
	return []plot.Axes{
		panel("gradient on every rank", "GB", func(s sample) float64 { return float64(s.Gathered) / 1e9 }, func(s sample) float64 { return float64(s.Reduced) / 1e9 }),
		panel("least time", "seconds", func(s sample) float64 { return s.Gather }, func(s sample) float64 { return s.Reduce }),
	}
}
