package densify

import (
	"fmt"
	"slices"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
)

// The rules by which a framework accumulates the gradients of one parameter (Cavdar et al. 2019,
// "Densifying Assumed-sparse Tensors"). No experiment runs them: claims are tested on them.

// gradientForm is the form of a gradient.
type gradientForm uint8

const (
	dense  gradientForm = iota // a tensor of the parameter's shape
	sparse                     // some of its rows, with their indices: TensorFlow's IndexedSlices
)

func (k gradientForm) String() string { return [...]string{"dense", "sparse"}[k] }

// passThrough is what happens to no gradient or one: nothing. No training has such a way.
const passThrough gpipe.TableGradients = 2

// ruleOutcome is what a rule makes of the gradients of one parameter.
type ruleOutcome struct {
	Way gpipe.TableGradients
	// Out is the result's form; without gradients it has none.
	Out []gradientForm
	// Converted is how many gradients are turned into the other form first: dense ones
	// into all rows of the table, or sparse ones into tensors.
	Converted int
}

// byTensorFlow is the paper's Algorithm 1: gradients are gathered unless all are dense.
func byTensorFlow(in []gradientForm) ruleOutcome {
	rows := count(in, sparse)
	switch {
	case len(in) < 2:
		return ruleOutcome{passThrough, slices.Clone(in), 0}
	case rows == 0:
		return ruleOutcome{gpipe.ReduceTied, []gradientForm{dense}, 0}
	}
	return ruleOutcome{gpipe.GatherTied, []gradientForm{sparse}, len(in) - rows}
}

// byProposal is the paper's Algorithm 2: gradients are gathered only if none is dense.
func byProposal(in []gradientForm) ruleOutcome {
	rows := count(in, sparse)
	if len(in) < 2 || rows == 0 || rows == len(in) {
		return byTensorFlow(in)
	}
	return ruleOutcome{gpipe.ReduceTied, []gradientForm{dense}, rows}
}

// overRanks is how Horovod accumulates a gradient of one form over ranks: an all-reduce,
// or two all-gathers, of rows and of indices. AsDense is its option sparse_as_dense, the
// paper's Listing 1, which turns rows into a tensor first.
func overRanks(k gradientForm, asDense bool) gpipe.TableGradients {
	if k == sparse && !asDense {
		return gpipe.GatherTied
	}
	return gpipe.ReduceTied
}

func count(in []gradientForm, k gradientForm) (n int) {
	for _, one := range in {
		if one == k {
			n++
		}
	}
	return n
}

// formsOf reads D and S.
func formsOf(text string) (in []gradientForm) {
	for _, letter := range text {
		in = append(in, map[rune]gradientForm{'D': dense, 'S': sparse}[letter])
	}
	return in
}

// combinations are all lists of n gradients.
func combinations(n int) (all []string) {
	if n == 0 {
		return []string{""}
	}
	for _, rest := range combinations(n - 1) {
		all = append(all, rest+"D", rest+"S")
	}
	return all
}

// Both algorithms on every combination of up to three gradients, as the paper's lines give
// them by hand.
func TestRules(t *testing.T) {
	want := map[string][2]string{ // gradients: Algorithm 1, Algorithm 2
		"":    {"TableGradients(2) [] 0", "TableGradients(2) [] 0"},
		"D":   {"TableGradients(2) [dense] 0", "TableGradients(2) [dense] 0"},
		"S":   {"TableGradients(2) [sparse] 0", "TableGradients(2) [sparse] 0"},
		"DD":  {"reduce [dense] 0", "reduce [dense] 0"},
		"DS":  {"gather [sparse] 1", "reduce [dense] 1"},
		"SD":  {"gather [sparse] 1", "reduce [dense] 1"},
		"SS":  {"gather [sparse] 0", "gather [sparse] 0"},
		"DDD": {"reduce [dense] 0", "reduce [dense] 0"},
		"DDS": {"gather [sparse] 2", "reduce [dense] 1"},
		"DSD": {"gather [sparse] 2", "reduce [dense] 1"},
		"SDD": {"gather [sparse] 2", "reduce [dense] 1"},
		"DSS": {"gather [sparse] 1", "reduce [dense] 2"},
		"SDS": {"gather [sparse] 1", "reduce [dense] 2"},
		"SSD": {"gather [sparse] 1", "reduce [dense] 2"},
		"SSS": {"gather [sparse] 0", "gather [sparse] 0"},
	}
	tried := 0
	for n := range 4 {
		for _, in := range combinations(n) {
			tried++
			for i, rule := range []func([]gradientForm) ruleOutcome{byTensorFlow, byProposal} {
				o := rule(formsOf(in))
				testkit.Equal(t, fmt.Sprint(o.Way, o.Out, o.Converted), want[in][i], "Algorithm %d of %q", i+1, in)
			}
		}
	}
	testkit.Equal(t, tried, len(want), "combinations")
}

// A tied table has one dense gradient and two sparse ones: byTensorFlow gathers, and both the
// proposed rule and Horovod's option reduce.
func TestTiedTableIsGathered(t *testing.T) {
	tied := []gradientForm{dense, sparse, sparse}
	for _, c := range []struct {
		rule    func([]gradientForm) ruleOutcome
		asDense bool
		want    gpipe.TableGradients
	}{{byTensorFlow, false, gpipe.GatherTied}, {byTensorFlow, true, gpipe.ReduceTied}, {byProposal, false, gpipe.ReduceTied}, {byProposal, true, gpipe.ReduceTied}} {
		if got := overRanks(c.rule(tied).Out[0], c.asDense); got != c.want {
			t.Errorf("%v, as dense: %v; want %v", got, c.asDense, c.want)
		}
	}
}
