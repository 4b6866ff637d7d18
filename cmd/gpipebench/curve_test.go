package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// The curve of a training names what it is of, its series, and the losses to compare
// them with.
func TestCurve(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "curve.svg")
	succeeds(t, append(strings.Fields("train --steps 4 --eval-every 2 --curve "+svg), tiny...)...)
	text := testkit.Must(os.ReadFile(svg))(t)
	testkit.Has(t, string(text), "transformer-lm on synthetic, mini-batches of 4", ">training<", ">held out<", ">loss (nats)<", ">uniform<", ">entropy<")
}
