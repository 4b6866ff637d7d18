package plot

import (
	"encoding/xml"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
)

// Whose numbers a series has is seen by its colour in every figure, and nothing else has the
// colour of the paper, of the model or of what was measured.
func TestInks(t *testing.T) {
	got := inks([]string{"left over", "measured, fast", "paper", "measured, slow", "modelled", "paper", "torchgpipe", "theory, cut", "another"})
	alone := inks([]string{"paper", "measured"})
	if got["paper"] != alone["paper"] || got["measured, fast"] != alone["measured"] {
		t.Errorf("a voice has one colour here and another there: %v, %v", got, alone)
	}
	seen := map[color.Color]string{}
	for name, c := range got {
		if seen[c] != "" {
			t.Errorf("%s and %s are both %v", name, seen[c], c)
		}
		seen[c] = name
	}
	testkit.Equal(t, len(seen), 8, "colours of 8 names")
	var others []string
	for i := range 20 {
		others = append(others, fmt.Sprint("variant ", i))
	}
	for name, c := range inks(others) {
		for _, v := range Voices {
			if v.Prefix != "torchgpipe" && slices.Contains(v.Inks, c) {
				t.Errorf("%s has the colour of %s", name, v.Prefix)
			}
		}
	}
}

// A figure has every panel once and every name once, nothing lies upon anything
// else or beyond the edge, and its SVG is well-formed.
func TestFigure(t *testing.T) {
	bars := &BarPanel{
		Title: "one", Names: []string{"K = 2", "K = 4"},
		Series: []BarSeries{{Name: "paper", Values: []float64{1, 2}}, {Name: "measured", Values: []float64{1, 3}, Spread: []Spread{{1, 2.5, 4}}}},
	}
	lines := LinePanel{Title: "another", X: "K", Y: "throughput", Series: []Series{{Name: "paper", Lines: [][]Point{{{1, 2}, {2, 3}}}}, {Name: "a <name> & " + strings.Repeat("more ", 15), Lines: [][]Point{{{1, 1}, {2, 7}}}}}}
	f := testkit.Must(newFigure(lab.Heading{Finding: strings.Repeat("A long finding ", 20), Subject: "of this"}, []Axes{bars, lines, bars}))(t)
	count := map[string]int{}
	for i, p := range f.pieces {
		count[p.class]++
		if p.at.Min.X < 0 || p.at.Min.Y < 0 || p.at.Max.X > f.width || p.at.Max.Y > f.height {
			t.Errorf("%s %d lies at %v, beyond %v x %v", p.class, i, p.at, f.width, f.height)
		}
		for k, q := range f.pieces[:i] {
			const eps = 1e-6
			if p.at.Min.X < q.at.Max.X-eps && q.at.Min.X < p.at.Max.X-eps && p.at.Min.Y < q.at.Max.Y-eps && q.at.Min.Y < p.at.Max.Y-eps {
				t.Errorf("%s %d lies upon %s %d: %v, %v", p.class, i, q.class, k, p.at, q.at)
			}
		}
	}
	// paper, measured, what intervals are, and the name of the lines'.
	if count["panel"] != 3 || count["sign"] != 4 || count["name"] != 4 || count["finding"] < 2 || count["subject"] != 1 {
		t.Errorf("pieces: %v", count)
	}
	text := testkit.Must(f.svg())(t)
	testkit.Equal(t, xml.Unmarshal([]byte(text), new(struct{})), nil)
	pieces := FigurePieces(text)
	for _, p := range pieces {
		count[p.Class]--
		testkit.Equal(t, xml.Unmarshal([]byte(p.Text), new(struct{})), nil, "%s by itself", p.Class)
	}
	for class, n := range count {
		if n != 0 {
			t.Errorf("%d more of %s than the page finds", n, class)
		}
	}
}

// What is not finite is left out, and an axis from zero has what is below it.
func TestNotFinite(t *testing.T) {
	of := func(x, y float64) string {
		dots := &DotPanel{Names: []string{"a"}, Groups: [][]float64{{1, 2, x, y}}}
		lines := LinePanel{Series: []Series{{Name: "a", Lines: [][]Point{{{1, 3}, {2, x}, {2, y}}}}}}
		return testkit.Must(Files("p", lab.Heading{}, []Axes{dots, lines}))(t)[0].Text
	}
	testkit.Equal(t, of(math.NaN(), math.Inf(1)), of(math.Inf(-1), math.NaN()))
	below := LinePanel{FromZero: true, Series: []Series{{Name: "a", Lines: [][]Point{{{1, -2}, {2, 4}}}}}}
	axes, _, err := below.plot(nil, panelWidth)
	if err != nil || axes.Y.Min > -2 || axes.Y.Max < 4 {
		t.Errorf("%v, from %v to %v: want all values on the axis", err, axes.Y.Min, axes.Y.Max)
	}
}

// Every text of an SVG has its width in it, so that another font takes no more room.
func TestMeasuredWidths(t *testing.T) {
	bars := &BarPanel{Title: "a < b", Y: "throughput", Names: []string{"K = 2"}, Series: []BarSeries{{Name: "paper & theory", Values: []float64{1}}}}
	files := testkit.Must(Files("p", lab.Heading{Subject: "A title"}, []Axes{bars}))(t)
	texts := regexp.MustCompile(`<text [^>]*>`).FindAllString(files[0].Text, -1)
	if len(texts) < 6 {
		t.Fatalf("%d texts", len(texts))
	}
	for _, text := range texts {
		if !regexp.MustCompile(` textLength="[0-9.]+" lengthAdjust="spacingAndGlyphs"`).MatchString(text) {
			t.Errorf("no width in %s", text)
		}
	}
	wide, narrow := letters(titleSize).Width("a < b").Points(), letters(tickSize).Width("a < b").Points()
	if got := fmt.Sprintf(`textLength="%.5g" lengthAdjust="spacingAndGlyphs" style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;font-size:11px">a &lt; b<`, wide); !strings.Contains(files[0].Text, got) || wide <= narrow {
		t.Errorf("no %s: %g in small letters", got, narrow)
	}
}

// Ticks are few and round, and on the axis.
func TestTicks(t *testing.T) {
	for _, test := range []struct {
		marker plot.Ticker
		lo, hi float64
		want   string
	}{
		{roundTicks{}, 0, 1.05, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{roundTicks{}, 0, 6.3, "0 2 4 6"},
		{roundTicks{}, -11.9, 5, "-10 -5 0 5"},
		{roundTicks{}, 0, 3000, "0 500 1000 1500 2000 2500 3000"},
		{roundTicks{}, 7, 7, "7"},
		{innerTicks{}, 1.7, 1.901, "1.75 1.80 1.85"},
		{upTo{600}, 6, 700, "100 200 300 400 500 600"},
		{powers{}, 1, 30, "1 2 5 10 20"},
		{powers{counts: true}, 4e5, 3e8, "1M 10M 100M"},
	} {
		var labels []string
		for _, tick := range test.marker.Ticks(test.lo, test.hi) {
			if tick.Value < test.lo-1e-9 || tick.Value > test.hi+1e-9 {
				t.Errorf("%T from %v to %v: a tick at %v", test.marker, test.lo, test.hi, tick.Value)
			}
			if tick.Label != "" {
				labels = append(labels, tick.Label)
			}
		}
		testkit.Equal(t, strings.Join(labels, " "), test.want, "%T from %v to %v", test.marker, test.lo, test.hi)
	}
}
