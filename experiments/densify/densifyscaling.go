package densify

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/nn/graph"
	"gpipebench/simulate"
	"gpipebench/train"
)

type scalingSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	Table                            tiedTable   `yaml:"table"`
	Parameters                       int64       `yaml:"parameters" want:"1..1e12"`
	Model                            train.Model `yaml:"model"`
	Optimizer                        string      `yaml:"optimizer" want:"optimizer"`
	Measured                         struct {    // the accumulation of the table by others
		Ranks  int     `yaml:"ranks" want:"2..65536"`
		Tokens int     `yaml:"tokens" want:"1..1048576"` // of a rank, on either side
		Gather float64 `yaml:"gather" want:">0..1e6"`    // milliseconds
		Reduce float64 `yaml:"reduce" want:">0..1e6"`    // milliseconds
	} `yaml:"measured"`
	Series []series `yaml:"series"`
	Paper  []struct {
		Series     string       `yaml:"series" want:"id,key"`
		Way        string       `yaml:"way" want:"id,key"`
		Nodes      int          `yaml:"nodes" want:"1..65536,key"`
		Efficiency lab.Verbatim `yaml:"efficiency"` // percent
	} `yaml:"paper" want:"optional"`
}

// series are numbers of nodes of a cluster; the others are relative to the first.
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

// gather and reduce are the names of tableWays.
var gather, reduce = gpipe.GatherTied.String(), gpipe.ReduceTied.String()

func (of series) ways() []string {
	if of.Gather {
		return []string{gather, reduce}
	}
	return []string{reduce}
}

// tokens returns a rank's tokens on either side for a number of nodes.
func (of series) tokens(nodes int) int {
	if of.Batch > 0 {
		return of.Batch / (nodes * of.Ranks)
	}
	return of.Tokens
}

// share makes of a node what each of its ranks has of it.
func (of series) share(node *accelerator.Accelerator) {
	n := float64(of.Ranks)
	node.F32, node.BF16, node.Bandwidth = node.F32/n, node.BF16/n, node.Bandwidth/n
	node.Memory /= int64(of.Ranks)
}

// check refuses a series that cannot be, with the field that is wrong.
func (of series) check() (field string, err error) {
	if (of.Tokens == 0) == (of.Batch == 0) {
		return "tokens", errors.New("want either tokens of a rank, or a batch of all ranks")
	}
	for _, n := range of.Nodes {
		if ranks := n * of.Ranks; ranks > 1<<16 || of.tokens(n) < 1 || of.tokens(n) > 1<<20 || of.tokens(n)%of.Sentence != 0 || of.Batch%ranks != 0 {
			return "nodes", fmt.Errorf("%d tokens for each of %d ranks: want 1 to %d, whole sentences of %d, and at most %d ranks", of.tokens(n), ranks, 1<<20, of.Sentence, 1<<16)
		}
	}
	if on, err := accelerator.Named(of.Accelerator); err != nil || on.Link.Bandwidth == 0 || on.F32 == 0 {
		return "accelerator", fmt.Errorf("%s: want an accelerator with links and float32", of.Accelerator)
	}
	return "", nil
}

// rankStep is a rank's step without exchanges.
type rankStep struct {
	Seconds  float64 `json:"seconds"`
	Backward float64 `json:"backward_seconds"` // a part of it
	Fits     bool    `json:"fits"`             // in the rank's share of memory
}

// densifyScaling simulates a rank's step. It needs code for the exchanges, which are closed
// forms.
var densifyScaling = cells.Kind[scalingSpec, rankStep]{
	Check: func(s *scalingSpec) *lab.Problem {
		if table := int64(s.Table.Vocab) * int64(s.Table.Dim); s.Parameters < table {
			return lab.At(fmt.Errorf("%d, fewer than the table's %d: want all of the network's", s.Parameters, table), "parameters")
		}
		if s.Model.Name != train.Translator || s.Model.Seq != 0 {
			return lab.At(fmt.Errorf("want %s, without seq, which is that of series", train.Translator), "model")
		}
		for i, of := range s.Series {
			if field, err := of.check(); err != nil {
				return lab.At(err, "series", strconv.Itoa(i), field)
			}
		}
		for i, p := range s.Paper {
			of := slices.IndexFunc(s.Series, func(of series) bool { return of.ID == p.Series })
			if of < 0 || !slices.Contains(s.Series[of].Nodes, p.Nodes) || !slices.Contains(s.Series[of].ways(), p.Way) {
				return lab.At(errors.New("want a series, one of its nodes, and gather or reduce"), "paper", strconv.Itoa(i))
			}
		}
		return nil
	},
	Planned: func(s *scalingSpec) []lab.PlannedRun {
		m := s.Model
		m.Seq = s.Series[0].Sentence
		return []lab.PlannedRun{{Path: []string{"model"}, Run: lab.ModelledRun{Model: m, Most: 1}}}
	},
	Rows: func(s *scalingSpec, _ string) (rows []cells.Row[rankStep], err error) {
		for _, of := range s.Series {
			on, err := accelerator.Named(of.Accelerator)
			if err != nil {
				return nil, err
			}
			for _, way := range of.ways() {
				for _, n := range of.Nodes {
					ranks := n * of.Ranks
					if way == gather && ranks > s.most(of.tokens(n)) {
						break
					}
					table, others := s.exchange(of, n, way, on.Hop(), on.Hop())
					rows = append(rows, cells.Row[rankStep]{
						Has: shown.Values{
							"series": of.Name, "way": way, "nodes": n, "ranks": ranks, "tokens": of.tokens(n), "base_nodes": of.Nodes[0],
							"paper": s.printed(of, way, n), "table": table, "others": others,
						},
						Reads: []cells.Cell[rankStep]{s.cell("base", of, of.Nodes[0], way, on.Hop()), s.cell("of", of, n, way, on.Hop())},
					})
				}
			}
		}
		return rows, nil
	},
}

// cell models a step on nodes. Its values are the tokens a second under each of the
// conventions that the paper leaves open: whether gradients but the table's are exchanged during
// the backward pass, as far as it lasts, or after it, and whether links have their peak or are as
// slow as the accumulation of Figure 5 shows.
func (s *scalingSpec) cell(as string, of series, nodes int, way string, link clock.Link) cells.Cell[rankStep] {
	tokens := of.tokens(nodes)
	name := fmt.Sprintf("%s/ranks=%d/tokens=%d/sentence=%d", of.Accelerator, of.Ranks, tokens, of.Sentence)
	m := s.Model
	m.Seq = of.Sentence
	c := cells.Simulated(as, name, simulate.Simulating{
		Model: m, Accelerator: of.Accelerator, Batch: tokens / of.Sentence, Optimizer: s.Optimizer,
		DType: graph.F32, Accounting: gpipe.FullAccounting, Change: of.share,
		Setup: train.Setup{Partitions: 1, MicroBatches: 1, Schedule: schedule.Naive, Checkpoint: schedule.Never},
	}, func(r *simulate.Simulation) rankStep {
		return rankStep{r.StepSeconds, r.Step.Timeline.Busy(0, timeline.Backward), r.Fits}
	})
	c.Values = func(alone rankStep) shown.Values {
		all := shown.Values{"fits": alone.Fits}
		slowGather, slowReduce := s.slowLinks(link)
		for rate, links := range map[string][2]clock.Link{"links_peak": {link, link}, "as_in_Figure_5": {slowGather, slowReduce}} {
			// The table's gradient is complete only after the backward pass of the embeddings,
			// the last one, so nothing hides its exchange.
			table, others := s.exchange(of, nodes, way, links[0], links[1])
			whole := float64(tokens * nodes * of.Ranks)
			all["after_"+rate] = whole / (alone.Seconds + table + others)
			all["hidden_"+rate] = whole / (alone.Seconds + table + max(0, others-alone.Backward))
		}
		return all
	}
	return c
}

// exchange is the time of both parts of an exchange: of the table's gradient and of all
// others, along a ring over links for gathers and for reductions.
func (s *scalingSpec) exchange(of series, nodes int, way string, gathers, reductions clock.Link) (table, others float64) {
	if nodes == 1 {
		return 0, 0
	}
	shared, ranks := s.table(of.tokens(nodes)), nodes*of.Ranks
	table = reduceSeconds(ranks, shared.DenseBytes(), reductions)
	if way == gather {
		table = shared.GatherSeconds(ranks, gathers)
	}
	return table, reduceSeconds(ranks, 4*s.Parameters-shared.DenseBytes(), reductions)
}

// table is the shared table with a rank's tokens on either side.
func (s *scalingSpec) table(tokens int) tiedTable {
	t := s.Table
	t.Source, t.Target = tokens, tokens
	return t
}

// slowLinks are those on which the paper's gather and its reduction would take what was
// measured.
func (s *scalingSpec) slowLinks(link clock.Link) (gather, reduce clock.Link) {
	m, table := s.Measured, s.table(s.Measured.Tokens)
	one := clock.Link{Bandwidth: 1}
	gather = clock.Link{Bandwidth: table.GatherSeconds(m.Ranks, one) / (m.Gather / 1e3), Latency: link.Latency}
	reduce = clock.Link{Bandwidth: reduceSeconds(m.Ranks, table.DenseBytes(), one) / (m.Reduce / 1e3), Latency: link.Latency}
	return gather, reduce
}

// most is the most ranks that can gather.
func (s *scalingSpec) most(tokens int) int { return s.table(tokens).MostCounted(4) }

// MostMeasured is that with as many tokens as were measured. The spec's caption has it.
func (s *scalingSpec) MostMeasured() int { return s.most(s.Measured.Tokens) }

// printed is what the paper has.
func (s *scalingSpec) printed(of series, way string, nodes int) lab.Value {
	for _, p := range s.Paper {
		if p.Series == of.ID && p.Way == way && p.Nodes == nodes {
			return p.Efficiency.Printed("%")
		}
	}
	return lab.Absent
}
