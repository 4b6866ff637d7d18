// Package draw draws timelines: as text in the manner of the paper's Figure 2c
// ([WriteText]), as a picture ([WriteSVG]) and as a trace for browsers ([WriteChrome]); and
// how replicas add up tensors ([WritePhases]). It is pure, as package timeline is.
package draw

import (
	"encoding/xml"
	"slices"
	"strconv"
	"strings"

	"gpipebench/gpipe/timeline"
)

// look is how a kind is drawn. The cell is its letter in text; the letter is what its box in
// a picture shows, and if that is empty, cells fill all of an event in text.
type look struct {
	kind          timeline.Kind
	class, letter string
	cell          byte
	name          string
	ink           string // "": none
}

// looks are in the order of a picture's legend. The colours are Okabe and Ito's, which
// colour-blind readers can distinguish, and dark text is legible on all of them.
var looks = [...]look{
	{timeline.Setup, "setup", "S", 'S', "setup", "#b3b3b3"},
	{timeline.Forward, "forward", "F", 'F', "forward", "#56b4e9"},
	{timeline.Recompute, "recompute", "R", 'R', "recompute", "#e69f00"},
	{timeline.Backward, "backward", "B", 'B', "backward", "#2bb58a"},
	{timeline.BackwardInput, "inputs", "I", 'I', "inputs' gradients", "#2bb58a"},
	{timeline.BackwardWeights, "weights", "W", 'W', "weights' gradients", "#a3d977"}, // with a micro-batch, unlike those of replicas
	{timeline.Meet, "meet", "", '=', "statistics of replicas", "#f0e442"},
	{timeline.Reduce, "reduce", "+", '+', "sums over groups", "#f0e442"},
	{timeline.Rows, "rows", "*", '*', "rows of tied tables", "#cc9966"},
	{timeline.Update, "update", "U", 'U', "update", "#d98cb3"},
	{timeline.Gather, "gather", "W", 'W', "weights of replicas", "#f0e442"},
	{timeline.Barrier, "barrier", "", ':', "barrier", ""},
	{timeline.ToHost, "to-host", "", '>', "to host", "#f0e442"},
	{timeline.FromHost, "from-host", "", '<', "from host", "#f0e442"},
}

func lookOf(k timeline.Kind) look {
	return looks[slices.IndexFunc(looks[:], func(l look) bool { return l.kind == k })]
}

// timeUnits from the largest.
var timeUnits = []struct {
	name string
	size float64
}{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}

// seconds writes a time in four digits and the unit that suits it.
func seconds(t float64) string {
	unit := timeUnits[len(timeUnits)-1]
	for _, u := range slices.Backward(timeUnits) {
		if t >= u.size || t == 0 {
			unit = u
		}
	}
	return strconv.FormatFloat(t/unit.size, 'g', 4, 64) + " " + unit.name
}

// pixels writes a coordinate, to a hundredth.
func pixels(v float64) string {
	s := strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0")
	return strings.TrimSuffix(s, ".")
}

// escaped is a text with XML's special characters escaped.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // writing to memory cannot fail
	return b.String()
}
