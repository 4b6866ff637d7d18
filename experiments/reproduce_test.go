package experiments

import (
	"slices"
	"strings"
	"testing"
)

// What runs is the first paper's, unless other experiments are asked for.
func TestReproducingChooses(t *testing.T) {
	first, other := idsOf(Papers[0].Experiments), idsOf(Papers[1].Experiments)
	for _, c := range []struct {
		r    Reproducing
		want []string
		says string // of the error; "": none
	}{
		{Reproducing{}, first, ""},
		{Reproducing{Paper: Papers[0].Name}, first, ""},
		{Reproducing{Paper: Papers[1].Name}, other, ""},
		{Reproducing{Paper: AllPapers}, IDs(), ""},
		{Reproducing{Spec: "mine.yaml"}, IDs(), ""},
		{Reproducing{Only: []string{other[0], first[1]}}, []string{other[0], first[1]}, ""},
		{Reproducing{Only: other[:1], Paper: Papers[1].Name}, other[:1], ""},
		{Reproducing{Only: other[:1], Paper: Papers[0].Name}, nil, "is not of " + Papers[0].Name + ": want some of " + first[0]},
		{Reproducing{Only: []string{first[0], first[0]}}, nil, "is named twice"},
		{Reproducing{Only: []string{}}, nil, "no experiment: want some of"},
		{Reproducing{Paper: "none"}, nil, `unknown paper "none": want ` + strings.Join(PaperNames(), ", ")},
	} {
		got, err := c.r.chosen()
		if !slices.Equal(got, c.want) || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, %v; want %v, %s", c.r, got, err, c.want, c.says)
		}
	}
}
