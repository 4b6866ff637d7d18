package draw_test

import (
	"strings"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
)

// The ending of a file's name decides the format.
func TestWrite(t *testing.T) {
	tl := &timeline.Timeline{Devices: 4, Replicas: 2, Events: []timeline.Event{{End: 1}, {At: place.Stage(1), Micro: 3, Start: 1, End: 2}}}
	for name, want := range map[string]string{
		"a.json": `"traceEvents":[`, "a": `"traceEvents":[`, "a.svg": "K = 2, M = 4</text>", "a.SVG": "<svg", "a.txt": "0 |F0",
	} {
		var text strings.Builder
		if err := draw.Write(&text, name, tl); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%s: %v, no %s in\n%s", name, err, want, &text)
		}
	}
	for _, name := range []string{"a.png", "a.json.gz", ".hidden"} {
		var text strings.Builder
		if err := draw.Write(&text, name, tl); err == nil || !strings.Contains(err.Error(), "want a name that ends in .json, .svg, .txt") || text.Len() > 0 {
			t.Errorf("%s: %v, %q", name, err, &text)
		}
	}
}
