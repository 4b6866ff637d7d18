package accumulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// kindsOf reads D and S.
func kindsOf(text string) (in []Kind) {
	for _, letter := range text {
		in = append(in, map[rune]Kind{'D': Dense, 'S': Sparse}[letter])
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
		"":    {"pass-through [] 0", "pass-through [] 0"},
		"D":   {"pass-through [dense] 0", "pass-through [dense] 0"},
		"S":   {"pass-through [sparse] 0", "pass-through [sparse] 0"},
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
			for i, rule := range []func([]Kind) Outcome{TensorFlow, Proposed} {
				o := rule(kindsOf(in))
				if got := fmt.Sprint(o.Way, o.Out, o.Converted); got != want[in][i] {
					t.Errorf("Algorithm %d of %q: %s, want %s", i+1, in, got, want[in][i])
				}
			}
		}
	}
	if tried != len(want) {
		t.Errorf("%d combinations, want %d", tried, len(want))
	}
}

// What holds for any number of gradients: their order does not matter, the algorithms
// differ exactly where both forms occur, and a result never aliases the input.
func TestRulesOfMany(t *testing.T) {
	for n := 2; n <= 8; n++ {
		for _, text := range combinations(n) {
			in := kindsOf(text)
			one, two := TensorFlow(in), Proposed(in)
			mixed := strings.Contains(text, "D") && strings.Contains(text, "S")
			if same := one.Way == two.Way; same == mixed {
				t.Errorf("%s: %v and %v", text, one, two)
			}
			if mixed && one.Converted+two.Converted != n {
				t.Errorf("%s: %d and %d converted, want every gradient by one of the two", text, one.Converted, two.Converted)
			}
			sorted := slices.Sorted(slices.Values(in))
			if a, b := fmt.Sprint(TensorFlow(sorted), Proposed(sorted)), fmt.Sprint(one, two); a != b {
				t.Errorf("%s: %s, sorted %s", text, b, a)
			}
		}
	}
	in := []Kind{Sparse}
	TensorFlow(in).Out[0] = Dense
	if in[0] != Sparse {
		t.Error("the result is the input")
	}
}

// A tied table has one dense gradient and two sparse ones: TensorFlow gathers, and both the
// proposed rule and Horovod's option reduce.
func TestTiedTable(t *testing.T) {
	tied := []Kind{Dense, Sparse, Sparse}
	for _, c := range []struct {
		rule    func([]Kind) Outcome
		asDense bool
		want    Way
	}{{TensorFlow, false, Gather}, {TensorFlow, true, Reduce}, {Proposed, false, Reduce}, {Proposed, true, Reduce}} {
		if got := Exchange(c.rule(tied).Out[0], c.asDense); got != c.want {
			t.Errorf("%v, as dense: %v; want %v", got, c.asDense, c.want)
		}
	}
}
