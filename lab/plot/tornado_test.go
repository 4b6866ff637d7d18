package plot

import (
	"math"
	"strings"
	"testing"
)

// Everything is within the axes, and what moves a value little looks little.
func TestTornado(t *testing.T) {
	p := &TornadoPanel{Title: "K = 8", X: "throughput", Value: 2, Paper: 2.7, Swings: []Swing{{"link", 1.1, math.NaN()}, {"dense", 1.99, 2.01}}}
	xmin, xmax, ymin, ymax := tornado{TornadoPanel: p}.DataRange()
	if xmin != 1.1 || xmax != 2.7 || ymin != -2 || ymax != 0 {
		t.Errorf("%v to %v, %v to %v", xmin, xmax, ymin, ymax)
	}
	p.Swings, p.Paper = p.Swings[1:], 2
	if xmin, xmax, _, _ = (tornado{TornadoPanel: p}).DataRange(); xmin != 1.9 || xmax != 2.1 {
		t.Errorf("%v to %v, want a tenth of the value", xmin, xmax)
	}
	files, err := Files("p", "A title", []Axes{p})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"dense", "throughput", "at the low end of the band", "paper"} {
		if !strings.Contains(files[0].Text, text) {
			t.Errorf("no %q in the picture", text)
		}
	}
}
