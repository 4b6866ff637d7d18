package densify

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/lab"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/train"
)

// The official Transformer, big, has the parameters that ranks exchange: attentions without
// biases, feed-forwards with them, norms before every sub-layer and after both stacks.
func TestParameters(t *testing.T) {
	const dim, ff, vocab, layers = 1024, 4096, 33_708, 6
	attention, norm := 4*dim*dim, 2*dim
	forward := dim*ff + ff + ff*dim + dim
	encoder := attention + forward + 2*norm
	decoder := 2*attention + forward + 3*norm
	want := int64(vocab*dim + layers*(encoder+decoder) + 2*norm)
	if got := loaded(t, "densify-scaling", densifyScaling).Spec.Parameters; got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
}

// A report of given steps is the arithmetic of these.
func TestScalingReport(t *testing.T) {
	r := cellstest.Report(t, loaded(t, "densify-scaling", densifyScaling), func(_, sample string) rankStep {
		var ranks, tokens, sentence int
		if _, err := fmt.Sscanf(sample[strings.Index(sample, "/"):], "/ranks=%d/tokens=%d/sentence=%d", &ranks, &tokens, &sentence); err != nil {
			t.Fatal(err)
		}
		return rankStep{Seconds: float64(tokens) / 500, Backward: float64(tokens) / 2000, Fits: tokens != 1024}
	})
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	if n := len(table.Rows); n != 4+10+6+8+1+1 {
		t.Errorf("%d rows", n)
	}
	of := func(series, way, nodes, column string) float64 {
		t.Helper()
		for _, row := range table.Rows {
			if row[0].Text == series && row[1].Text == way && row[2].Text == nodes {
				if v := row[table.Column(column)]; len(v.Numbers) > 0 {
					return v.Numbers[0]
				}
			}
		}
		return math.NaN()
	}
	// Steps of 10 s, of which 2.5 s hide others. By hand, in seconds: the table gathered by 32
	// ranks takes 31 * 179,027,968 / 12.5e9 and 31 messages of 1e-6; as in Figure 5
	// 4.32 * 31/63; reduced 2 * 31/32 * 138,067,968 / 12.5e9 and 62 messages; the others
	// 705,150,976 bytes.
	gathered := 31*179_027_968/12.5e9 + 31e-6
	slow := 4.32*31/63 + 31e-6
	reduced := 2*31./32*138_067_968/12.5e9 + 62e-6
	others := 2*31./32*705_150_976/12.5e9 + 62e-6
	slowOthers := 0.169*705_150_976/138_067_968*(31./32)/(63./64) + 62e-6
	for _, c := range []struct {
		way, column string
		want        float64
	}{
		{gather, "efficiency, hidden, links' peak", 10 / (10 + gathered)},
		{gather, "efficiency, hidden, as in Figure 5", 10 / (10 + slow)},
		{gather, "efficiency, after, links' peak", 10 / (10 + gathered + others)},
		{gather, "efficiency, after, as in Figure 5", 10 / (10 + slow + slowOthers)},
		{reduce, "efficiency, hidden, links' peak", 10 / (10 + reduced)},
		{reduce, "efficiency, after, links' peak", 10 / (10 + reduced + others)},
	} {
		if got := of("weak, Zenith", c.way, "8", c.column) / 100; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s, %s: %v, want %v", c.way, c.column, got, c.want)
		}
	}
	for _, c := range []struct {
		series, way, nodes, column string
		want                       float64
	}{
		{"weak, Zenith", gather, "8", "paper", 75}, {"weak, Zenith", reduce, "300", "paper", 91.5},
		{"weak, Zenith", reduce, "1", "efficiency, after, as in Figure 5", 100},
		{"weak, Zenith", reduce, "1", "tokens/s", 2000}, {"one node, Zenith", reduce, "1", "tokens/s", 1000},
		{"strong, Zenith", reduce, "200", "tokens a rank", 2048}, {"strong, Stampede2", reduce, "400", "tokens a rank", 1024},
		{"larger batch, Stampede2", reduce, "512", "tokens a rank", 1536},
	} {
		if got := of(c.series, c.way, c.nodes, c.column); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: %v", c, got)
		}
	}
	// A backward of 0.512 s hides a part of an exchange of 0.877 s: 800 ranks with 1024
	// tokens each, relative to 32 with 25,600.
	step := 2.048 + 0.169*(799./800)/(63./64) + 1598e-6 + (0.169*705_150_976/138_067_968*(799./800)/(63./64) + 1598e-6 - 0.512)
	base := 51.2 + 0.169*(31./32)/(63./64) + 62e-6
	if got, want := of("strong, Stampede2", reduce, "400", "efficiency, hidden, as in Figure 5")/100, 2048/step/(51_200/base); math.Abs(got-want) > 1e-6 {
		t.Errorf("partly hidden: %v, want %v", got, want)
	}
	if len(table.Notes) != 1 || !strings.Contains(table.Notes[0], "strong, Stampede2, 1024 tokens") {
		t.Errorf("notes %q", table.Notes)
	}
}

// Series that give a rank as many tokens share a step, and a smaller share of a node makes
// it longer.
func TestScalingMeasure(t *testing.T) {
	s := loaded(t, "densify-scaling", densifyScaling)
	s.Spec.Model = train.Model{Name: train.Translator, Layers: 1, Dim: 16, FF: 32, Heads: 2, Vocab: 50, Tied: "all"}
	s.Spec.Series = []series{
		{ID: "a", Name: "a", Accelerator: "zenith", Ranks: 1, Tokens: 50, Sentence: 25, Nodes: []int{1, 2}},
		{ID: "b", Name: "b", Accelerator: "zenith", Ranks: 2, Batch: 200, Sentence: 25, Nodes: []int{1, 2}},
	}
	all := cellstest.Measured(t, s)
	if len(all) != 3 {
		t.Errorf("%d samples", len(all))
	}
	sample := func(i, nodes int) rankStep {
		return all[s.Spec.cell("", s.Spec.Series[i], nodes, reduce, clock.Link{Bandwidth: 1}).Sample]
	}
	whole, half := sample(0, 1), sample(1, 2)
	if !(half.Seconds > whole.Seconds && whole.Seconds > whole.Backward && whole.Backward > 0 && whole.Fits) {
		t.Errorf("a node %+v, half of one %+v", whole, half)
	}
}

// Ranks of a node divide its processors, its memory and the memory's rate, not its link.
func TestShare(t *testing.T) {
	node := accelerator.Accelerator{F32: 8, BF16: 16, Bandwidth: 32, Memory: 64, Link: clock.Link{Bandwidth: 5}}
	series{Ranks: 4}.share(&node)
	if node.F32 != 2 || node.BF16 != 4 || node.Bandwidth != 8 || node.Memory != 16 || node.Link.Bandwidth != 5 {
		t.Errorf("a quarter has %+v", node)
	}
}

func TestScalingSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("densify-scaling"), [][3]string{
		{"tokens: 5000   #", "tokens: 0 #", "want either tokens of a rank, or a batch"},
		{"sentence: 25", "sentence: 24", "whole sentences of 24"},
		{"parameters: 210804736", "parameters: 1000", "fewer than the table's 34516992"},
		{"name: transformer,", "name: transformer-lm,", "want transformer, without seq"},
		{"128, 200, 300]", "128, 200, 20000]", "at most 65536 ranks"},
		{"nodes: 300, efficiency", "nodes: 301, efficiency", "want a series, one of its nodes"},
		{"way: gather, nodes: 4,", "way: star, nodes: 4,", "and gather or reduce"},
		{"accelerator: stampede2", "accelerator: abacus", "unknown accelerator"},
		{"gather: 4320", "gather: 0", "want a number above 0"},
	})
	s := loaded(t, "densify-scaling", densifyScaling)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		s.Spec.Series[0].Accelerator = file
		return s
	})
}
