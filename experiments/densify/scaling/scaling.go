// Package scaling times steps of a translator whose ranks exchange the gradient of a tied
// table, gathered or reduced, on modelled clusters.
package scaling

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/experiments/densify/accumulate"
	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/nn/graph"
	"gpipebench/simulate"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "densify-scaling", Folder: folder, New: lab.New[scaling]}

// spec is spec.yaml.
type spec struct {
	lab.Head   `yaml:",inline"`
	Table      accumulate.Table `yaml:"table"`
	Parameters int64            `yaml:"parameters" want:"1..1e12"`
	Model      train.Model      `yaml:"model"`
	Optimizer  string           `yaml:"optimizer" want:"optimizer"`
	Measured   measured         `yaml:"measured"`
	Series     []series         `yaml:"series"`
	Paper      []paper          `yaml:"paper"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// measured is the accumulation of the table by others.
type measured struct {
	Ranks  int     `yaml:"ranks" want:"2..65536"`
	Tokens int     `yaml:"tokens" want:"1..1048576"` // of a rank, on either side
	Gather float64 `yaml:"gather" want:">0..1e6"`    // milliseconds
	Reduce float64 `yaml:"reduce" want:">0..1e6"`    // milliseconds
}

// series are numbers of nodes of a cluster, the first of which the others are relative to.
type series struct {
	ID          string `yaml:"id" want:"id,key"`
	Name        string `yaml:"name" want:"name"`
	Accelerator string `yaml:"accelerator" want:"accelerator"` // a node
	Ranks       int    `yaml:"ranks" want:"1..64"`             // of a node
	Tokens      int    `yaml:"tokens" want:"0..1048576"`       // weak scaling: of a rank, on either side
	Batch       int    `yaml:"batch" want:"0..1073741824"`     // strong scaling: of all ranks
	Sentence    int    `yaml:"sentence" want:"1..4096"`        // tokens
	Gather      bool   `yaml:"gather"`                         // the table also gathered, as far as that is possible
	Nodes       []int  `yaml:"nodes" want:"1..65536"`
}

// paper is an efficiency in percent.
type paper struct {
	Series     string       `yaml:"series" want:"id,key"`
	Way        string       `yaml:"way" want:"id,key"`
	Nodes      int          `yaml:"nodes" want:"1..65536,key"`
	Efficiency lab.Verbatim `yaml:"efficiency"`
}

// scaling simulates a rank's step without exchanges; these are closed forms.
type scaling struct {
	lab.Base[spec]
}

func (s *scaling) Resolve() *lab.Problem {
	if table := int64(s.Spec.Table.Vocab) * int64(s.Spec.Table.Dim); s.Spec.Parameters < table {
		return lab.At(fmt.Errorf("%d, fewer than the table's %d: want all of the network's", s.Spec.Parameters, table), "parameters")
	}
	if err := train.CheckModelName(s.Spec.Model.Name); err != nil || s.Spec.Model.Name != train.Translator || s.Spec.Model.Seq != 0 {
		return lab.At(fmt.Errorf("want %s, without seq, which is that of series", train.Translator), "model")
	}
	for i, of := range s.Spec.Series {
		at := func(err error, field string) *lab.Problem { return lab.At(err, "series", fmt.Sprint(i), field) }
		if (of.Tokens == 0) == (of.Batch == 0) {
			return at(errors.New("want either tokens of a rank, or a batch of all ranks"), "tokens")
		}
		for _, n := range of.Nodes {
			if ranks := n * of.Ranks; ranks > 1<<16 || of.tokens(n) < 1 || of.tokens(n) > 1<<20 || of.tokens(n)%of.Sentence != 0 || of.Batch%ranks != 0 {
				return at(fmt.Errorf("%d tokens for each of %d ranks: want 1 to %d, whole sentences of %d, and at most %d ranks", of.tokens(n), ranks, 1<<20, of.Sentence, 1<<16), "nodes")
			}
		}
		if on, err := accelerator.Named(of.Accelerator); err != nil || on.Link.Bandwidth == 0 || on.F32 == 0 {
			return at(fmt.Errorf("%s: want an accelerator with links and float32", of.Accelerator), "accelerator")
		}
	}
	for i, p := range s.Spec.Paper {
		of := slices.IndexFunc(s.Spec.Series, func(of series) bool { return of.ID == p.Series })
		if of < 0 || !slices.Contains(s.Spec.Series[of].Nodes, p.Nodes) || !slices.Contains(s.Spec.Series[of].ways(), p.Way) {
			return lab.At(errors.New("want a series, one of its nodes, and gather or reduce"), "paper", fmt.Sprint(i))
		}
	}
	return nil
}

func (s *scaling) Planned(string) []lab.PlannedRun {
	m := s.Spec.Model
	m.Seq = s.Spec.Series[0].Sentence
	return []lab.PlannedRun{{Path: []string{"model"}, Run: lab.ModelledRun{Model: m, Most: 1}}}
}

// tokens are those of a rank on either side, with so many nodes.
func (of series) tokens(nodes int) int {
	if of.Batch > 0 {
		return of.Batch / (nodes * of.Ranks)
	}
	return of.Tokens
}

// gather and reduce are the ways to accumulate the table's gradient.
const gather, reduce = "gather", "reduce"

func (of series) ways() []string {
	if of.Gather {
		return []string{gather, reduce}
	}
	return []string{reduce}
}

// name is that of the sample of a rank's step, which series share.
func (of series) name(nodes int) string {
	return lab.AtRates(fmt.Sprintf("%s/ranks=%d/tokens=%d/sentence=%d", of.Accelerator, of.Ranks, of.tokens(nodes), of.Sentence), of.Accelerator, of.share)
}

// share makes of a node what each of its ranks has of it.
func (of series) share(node *accelerator.Accelerator) {
	n := float64(of.Ranks)
	node.F32, node.BF16, node.Bandwidth = node.F32/n, node.BF16/n, node.Bandwidth/n
	node.Memory /= int64(of.Ranks)
}

// sample is a rank's step without exchanges. Nothing in it depends on the machine.
type sample struct {
	Seconds  float64 `json:"seconds"`
	Backward float64 `json:"backward_seconds"` // a part of it
	Fits     bool    `json:"fits"`             // in the rank's share of memory
}

func (s *scaling) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	for _, of := range s.Spec.Series {
		for _, n := range of.Nodes {
			name := of.name(n)
			jobs = append(jobs, lab.Job{Sample: name, Make: func(ctx context.Context) (any, string, error) {
				made, err := s.simulate(ctx, of, of.tokens(n))
				return made, name, err
			}})
		}
	}
	return lab.MakeMissing(ctx, s.ID(), log, p, jobs)
}

func (s *scaling) simulate(ctx context.Context, of series, tokens int) (*sample, error) {
	m := s.Spec.Model
	m.Seq = of.Sentence
	r, err := simulate.Simulating{
		Model: m, Accelerator: of.Accelerator, Batch: tokens / of.Sentence, Optimizer: s.Spec.Optimizer,
		DType: graph.F32, Accounting: gpipe.FullAccounting, Change: of.share,
		Setup: train.Setup{Partitions: 1, MicroBatches: 1, Schedule: schedule.Naive, Checkpoint: schedule.Never},
	}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, %s, %d tokens: %w", s.ID(), of.Name, tokens, err)
	}
	return &sample{r.StepSeconds, r.Step.Timeline.Busy(0, timeline.Backward), r.Fits}, nil
}

// convention says what the paper leaves open.
type convention struct {
	name   string
	hidden bool // other gradients are exchanged during the backward pass, as far as it lasts
	slow   bool // links are as slow as the paper's accumulation shows
}

// conventions begin with the one that counts.
var conventions = []convention{
	{"hidden, links' peak", true, false},
	{"hidden, as in Figure 5", true, true},
	{"after, links' peak", false, false},
	{"after, as in Figure 5", false, true},
}

// exchange is the time of both parts of an exchange: of the table's gradient and of all
// others, along a ring over links for gathers and for reductions.
func (s *scaling) exchange(of series, nodes int, way string, gathers, reductions timeline.Link) (table, others float64) {
	if nodes == 1 {
		return 0, 0
	}
	shared, ranks := s.table(of.tokens(nodes)), nodes*of.Ranks
	table = accumulate.ReduceSeconds(ranks, shared.DenseBytes(), reductions)
	if way == gather {
		table = shared.GatherSeconds(ranks, gathers)
	}
	return table, accumulate.ReduceSeconds(ranks, 4*s.Spec.Parameters-shared.DenseBytes(), reductions)
}

// table is the shared table with a rank's tokens on either side.
func (s *scaling) table(tokens int) accumulate.Table {
	t := s.Spec.Table
	t.Source, t.Target = tokens, tokens
	return t
}

// step is the time of a step with exchanges. The table's gradient is complete only after
// the backward pass of the embeddings, the last one, so nothing hides its exchange.
func (s *scaling) step(of series, nodes int, way string, c convention, alone sample, link timeline.Link) float64 {
	gathers, reductions := link, link
	if c.slow {
		gathers, reductions = s.slowLinks(link)
	}
	table, others := s.exchange(of, nodes, way, gathers, reductions)
	if c.hidden {
		others = max(0, others-alone.Backward)
	}
	return alone.Seconds + table + others
}

// slowLinks are those on which the paper's gather and its reduction would take what was
// measured.
func (s *scaling) slowLinks(link timeline.Link) (gather, reduce timeline.Link) {
	m, table := s.Spec.Measured, s.table(s.Spec.Measured.Tokens)
	one := timeline.Link{Bandwidth: 1}
	gather = timeline.Link{Bandwidth: table.GatherSeconds(m.Ranks, one) / (m.Gather / 1e3), Latency: link.Latency}
	reduce = timeline.Link{Bandwidth: accumulate.ReduceSeconds(m.Ranks, table.DenseBytes(), one) / (m.Reduce / 1e3), Latency: link.Latency}
	return gather, reduce
}

func (s *scaling) Report(log, _ *records.Log) (*lab.Report, error) {
	t := &lab.Table{ID: s.ID(), Title: s.Title(), Caption: []string{
		fmt.Sprintf("Steps of %v with %s, each rank on its share of a node at measured rates, and the exchange of %d float32 gradients along a ring of all ranks, whose part between nodes goes over one link in each direction. Efficiency: throughput over that of the series' first number of nodes, divided by how many times as many nodes there are.", s.Spec.Model, s.Spec.Optimizer, s.Spec.Parameters),
		"Hidden: all gradients but the table's are exchanged during the backward pass, as far as it lasts. After: nothing is. Links' peak: the rate that their maker states. As in Figure 5: links as slow as those on which the paper's own gather and reduction of the table would take what it measured. The first convention was chosen before anything was compared; speedup and tokens/s are its.",
		fmt.Sprintf("A gather is shown up to the ranks whose values 32 bits can count (%d at %d tokens).", s.most(s.Spec.Measured.Tokens), s.Spec.Measured.Tokens),
	}}
	t.Texts("series", "table")
	t.Numbers("nodes", "ranks", "tokens a rank", "tokens/s", "speedup")
	for _, c := range conventions {
		t.Numbers("efficiency, " + c.name)
	}
	t.Numbers("paper", "exchange of the table", "exchange of the others")
	unfit := ""
	for _, of := range s.Spec.Series {
		on, err := accelerator.Named(of.Accelerator)
		if err != nil {
			return nil, err
		}
		for _, way := range of.ways() {
			base := make([]float64, len(conventions)) // tokens a second and node
			for i, n := range of.Nodes {
				ranks := n * of.Ranks
				if way == gather && ranks > s.most(of.tokens(n)) {
					break
				}
				var alone sample
				if err := log.Get(of.name(n), &alone); err != nil {
					return nil, err
				}
				if !alone.Fits {
					unfit = fmt.Sprintf("%s, %d tokens a rank", of.Name, of.tokens(n))
				}
				var efficiencies []lab.Value
				rate := 0.0
				for j, c := range conventions {
					r := float64(of.tokens(n)*ranks) / s.step(of, n, way, c, alone, on.Hop())
					if i == 0 {
						base[j] = r / float64(n)
					}
					if j == 0 {
						rate = r
					}
					efficiencies = append(efficiencies, lab.Percent(r/float64(n)/base[j], 1))
				}
				table, others := s.exchange(of, n, way, on.Hop(), on.Hop())
				t.Add(of.Name, way, n, ranks, of.tokens(n), lab.Number("%.0f", rate), lab.Fixed(rate/(base[0]*float64(of.Nodes[0])), 2),
					efficiencies, s.printed(of, way, n), lab.Seconds(table), lab.Seconds(others))
			}
		}
	}
	if unfit != "" {
		t.Notes = append(t.Notes, "Does not fit a rank's share of memory by this program's plan: "+unfit+".")
	}
	r := &lab.Report{Tables: []*lab.Table{t}}
	panels := s.panels(t)
	if len(panels) == 0 {
		return r, nil
	}
	var err error
	r.Files, err = plot.Files(s.ID(), s.Title(), panels)
	return r, err
}

// most is the most ranks that can gather.
func (s *scaling) most(tokens int) int { return s.table(tokens).MostCounted(4) }

// printed is what the paper has.
func (s *scaling) printed(of series, way string, nodes int) lab.Value {
	for _, p := range s.Spec.Paper {
		if p.Series == of.ID && p.Way == way && p.Nodes == nodes {
			return lab.Value{Text: p.Efficiency.Text + "%", Numbers: []float64{p.Efficiency.Value}}
		}
	}
	return lab.Absent
}

// panels draw the efficiencies of every series with several numbers of nodes.
func (s *scaling) panels(t *lab.Table) []plot.Axes {
	var all []plot.Axes
	for _, of := range s.Spec.Series {
		if len(of.Nodes) < 2 {
			continue
		}
		p := &plot.LinePanel{Title: of.Name, X: "nodes", Y: "efficiency, %", FromZero: true}
		for _, n := range of.Nodes {
			p.Names = append(p.Names, fmt.Sprint(n))
		}
		for _, way := range of.ways() {
			named := map[string]string{gather: "gathered", reduce: "reduced"}[way]
			for _, column := range []string{"efficiency, " + conventions[0].name, "efficiency, " + conventions[1].name, "paper"} {
				line := plot.Series{Name: named + strings.TrimPrefix(column, "efficiency")}
				if column == "paper" {
					line = plot.Series{Name: "paper, " + named, Dashed: true}
				}
				var points []plot.Point
				for _, row := range t.Rows {
					at := slices.Index(p.Names, row[t.Column("nodes")].Text)
					if v := row[t.Column(column)]; row[0].Text == of.Name && row[1].Text == way && len(v.Numbers) > 0 && at >= 0 {
						points = append(points, plot.Point{X: float64(at), Y: v.Numbers[0]})
					}
				}
				if len(points) > 0 {
					line.Lines = [][]plot.Point{points}
					p.Series = append(p.Series, line)
				}
			}
		}
		all = append(all, p)
	}
	return plot.OneScale(all)
}
