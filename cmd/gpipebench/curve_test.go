package main

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// The curve of a training names what it is of, its series, and the losses to compare
// them with.
func TestCurve(t *testing.T) {
	dir := t.TempDir()
	svg, pixels := filepath.Join(dir, "curve.svg"), filepath.Join(dir, "curve.png")
	for _, name := range []string{svg, pixels} {
		succeeds(t, append(strings.Fields("train --steps 4 --eval-every 2 --curve "+name), tiny...)...)
	}
	text := testkit.Must(os.ReadFile(svg))(t)
	testkit.Has(t, string(text), "transformer-lm on synthetic, mini-batches of 4", ">training<", ">held out<", ">loss (nats)<", ">uniform<", ">entropy<")
	raw := testkit.Must(os.ReadFile(pixels))(t)
	if _, err := png.Decode(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
}
