package main

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The curve of a training names what it is of, its series, and the losses to compare
// them with.
func TestCurve(t *testing.T) {
	dir := t.TempDir()
	svg, pixels := filepath.Join(dir, "curve.svg"), filepath.Join(dir, "curve.png")
	for _, name := range []string{svg, pixels} {
		succeeds(t, append(strings.Fields("train --steps 4 --eval-every 2 --curve "+name), tiny...)...)
	}
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"transformer-lm on synthetic, mini-batches of 4", ">training<", ">held out<", ">loss (nats)<", ">uniform<", ">entropy<"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the curve", want)
		}
	}
	raw, err := os.ReadFile(pixels)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
}
