package draw

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// Use -update only after a change that should alter the picture, and look at the
// result.
var update = flag.Bool("update", false, "write the golden files anew")

func svg(t *testing.T, drawings ...Drawing) string {
	t.Helper()
	var out strings.Builder
	testkit.NoError(t, WriteSVG(&out, drawings...))
	return out.String()
}

// Figure 2b above Figure 2c: naive model parallelism and GPipe.
func TestWriteSVG(t *testing.T) {
	update1 := func(place.Place) float64 { return 1e-3 }
	naive := clocktest.Build(t, schedule.Naive, 3, 1, schedule.Never, false, clock.Costs{Task: clocktest.Each(3e-3, 0, 6e-3), Update: update1})
	gpipe := clocktest.Build(t, schedule.GPipe, 3, 3, schedule.Always, false, clock.Costs{Task: clocktest.Each(1e-3, 1e-3, 2e-3), Setup: update1, Update: update1})
	got := svg(t, Drawing{"Naive: K = 3, M = 1", naive}, Drawing{"GPipe: K = 3, M = 3", gpipe})
	name := filepath.Join("testdata", "timeline.svg")
	if *update {
		testkit.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want := testkit.Must(os.ReadFile(name))(t)
	testkit.Equal(t, cmp.Diff(string(want), got), "", "-want +got")
}

// svgShape is what a picture is made of, as an XML parser sees it.
type svgShape struct {
	rects  map[string]int // by class
	texts  []string
	inside bool // every box and text is within the picture
}

func parseSVG(t *testing.T, text string) svgShape {
	t.Helper()
	s := svgShape{rects: map[string]int{}, inside: true}
	d := xml.NewDecoder(strings.NewReader(text))
	attrs := map[string]string{}
	height := 0.0
	for depth := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return s
		}
		testkit.NoError(t, err, "in\n%s", text)
		switch token := token.(type) {
		case xml.StartElement:
			depth++
			clear(attrs)
			for _, a := range token.Attr {
				attrs[a.Name.Local] = a.Value
				if strings.Contains(a.Name.Local, "href") {
					t.Errorf("a reference to %s", a.Value)
				}
			}
			number := func(name string) float64 {
				v := testkit.Must(strconv.ParseFloat(attrs[name], 64))(t, "%s of %s", name, token.Name.Local)
				return v
			}
			switch {
			case token.Name.Local == "svg":
				height = number("height")
			case token.Name.Local == "rect" && attrs["x"] != "":
				s.rects[attrs["class"]]++
				if x, w := number("x"), number("width"); x < 0 || w < 0 || x+w > svgWidth || number("y")+number("height") > height {
					s.inside = false
				}
			case token.Name.Local == "text":
				if number("y") > height || number("x") > svgWidth {
					s.inside = false
				}
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				s.texts = append(s.texts, text)
			}
		}
	}
}

// Every event on a device is one box, whatever the pipeline, and the order of the
// events does not matter.
func TestSVGHoldsEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 60 {
		in := clocktest.Random(t, rng, 1e-3)
		tl := in.Replay(t)
		want := map[string]int{}
		for _, e := range tl.Events {
			if e.Kind.OnDevice() && e.Start < e.End {
				want[lookOf(e.Kind).class]++
			}
		}
		text := svg(t, Drawing{"a", tl})
		got := parseSVG(t, text)
		for class, n := range want {
			if class != "barrier" {
				n++ // the legend's
			}
			if got.rects[class] != n {
				t.Errorf("%v: %d boxes of class %s, want %d", in, got.rects[class], class, n)
			}
		}
		if got.rects[""] != tl.Devices+1 || !got.inside {
			t.Errorf("%v: %d lanes, all inside: %v", in, got.rects[""]-1, got.inside)
		}
		shuffled := &timeline.Timeline{Devices: tl.Devices, Events: append([]timeline.Event(nil), tl.Events...)}
		rng.Shuffle(len(shuffled.Events), func(i, j int) {
			shuffled.Events[i], shuffled.Events[j] = shuffled.Events[j], shuffled.Events[i]
		})
		testkit.Equal(t, svg(t, Drawing{"a", shuffled}), text, "%v: the order of events shows", in)
	}
}

func TestSVGEdges(t *testing.T) {
	// A caption is text, whatever is in it.
	caption := "</text><script>\"&\x00 µ\xff"
	s := parseSVG(t, svg(t, Drawing{caption, &timeline.Timeline{}}))
	testkit.Has(t, strings.Join(s.texts, "|"), "</text><script>\"&\uFFFD µ\uFFFD")
	// Nothing, nothing happening, and many devices.
	many := clocktest.Build(t, schedule.GPipe, 128, 2, schedule.Always, false, clock.Costs{Task: clocktest.Each(1, 1, 2)})
	for _, drawings := range [][]Drawing{nil, {{"", &timeline.Timeline{Devices: 3}}}, {{"", many}, {"", &timeline.Timeline{Devices: 1}}}} {
		if s := parseSVG(t, svg(t, drawings...)); !s.inside {
			t.Errorf("%d drawings: something is outside", len(drawings))
		}
	}
	endless := &timeline.Timeline{Devices: 1, Events: []timeline.Event{{End: math.Inf(1)}}}
	testkit.Fails(t, WriteSVG(io.Discard, Drawing{"", endless}), "cannot be drawn")
}

func TestNiceStep(t *testing.T) {
	for least, want := range map[float64]float64{0: 0, 1: 1, 1.1: 2, 3: 5, 6: 10, 0.012: 0.02, 70: 100} {
		if got := niceStep(least); math.Abs(got-want) > 1e-12*want {
			t.Errorf("niceStep(%v) = %v, want %v", least, got, want)
		}
	}
}

// Every kind that occupies a device can be drawn.
func TestEveryKindIsDrawn(t *testing.T) {
	for kind := timeline.Forward; !strings.HasPrefix(kind.String(), "Kind("); kind++ {
		if !kind.OnDevice() {
			continue
		}
		tl := &timeline.Timeline{Devices: 2, Replicas: 2, Events: []timeline.Event{{At: place.Place{Replica: 1}, Kind: kind, Micro: -1, End: 1}}}
		var svg, text strings.Builder
		testkit.Equal(t, WriteSVG(&svg, Drawing{Timeline: tl}), nil)
		if err := WriteText(&text, tl, 80); err != nil || !strings.Contains(text.String(), lookOf(kind).name) {
			t.Errorf("%v: %v\n%s", kind, err, text.String())
		}
	}
}

// A million events are a picture of bounded size, in which each kind has its share of the area.
func TestSVGOfMany(t *testing.T) {
	const stages, micro = 64, 5000
	lists := testkit.Must(schedule.Build(schedule.OneFOneB, stages, micro, schedule.Always, false))(t)
	step := testkit.Must(clock.Run(lists, clock.Costs{Task: clocktest.Each(1, 1, 2), Link: clock.Link{Latency: 0.5}}))(t)
	tl := step.Timeline()
	text := svg(t, Drawing{"many", tl})
	if s := parseSVG(t, text); !s.inside || len(text) > 2<<20 {
		t.Errorf("a picture of %d bytes, all inside: %v", len(text), s.inside)
	}
	area := map[string]float64{}
	for _, box := range regexp.MustCompile(`<rect class="(\w+)" x="[^"]*" y="[^"]*" width="([^"]*)" height="([^"]*)"/>`).FindAllStringSubmatch(text, -1) {
		width, height := testkit.Must(strconv.ParseFloat(box[2], 64))(t), testkit.Must(strconv.ParseFloat(box[3], 64))(t)
		area[box[1]] += width * height
	}
	const lane = 6.0
	for class, seconds := range map[string]float64{"forward": 1, "recompute": 1, "backward": 2} {
		if want := seconds * stages * micro / step.Span() * (svgRight - svgLeft) * lane; math.Abs(area[class]/want-1) > 0.03 {
			t.Errorf("%s has an area of %.0f, want %.0f", class, area[class], want)
		}
	}
	var lines strings.Builder
	testkit.NoError(t, WriteText(&lines, tl, 120))
	if lines.Len() > 121*(stages+1) {
		t.Errorf("a text of %d bytes", lines.Len())
	}
}
