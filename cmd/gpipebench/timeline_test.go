package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
)

// The ending of its name says what a trace is written as.
func TestWriteTimeline(t *testing.T) {
	tl := &timeline.Timeline{Devices: 2, Events: []timeline.Event{{End: 1}, {At: place.Stage(1), Micro: 3, Start: 1, End: 2}}}
	dir := t.TempDir()
	for name, want := range map[string]string{
		"a.json": `"traceEvents":[`, "a": `"traceEvents":[`, "a.svg": "K = 2, M = 4</text>", "a.SVG": "<svg", "a.txt": "0 |F0",
	} {
		name = filepath.Join(dir, name)
		if err := writeTimeline(name, tl); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %s in\n%s", name, err, want, text)
		}
	}
}
