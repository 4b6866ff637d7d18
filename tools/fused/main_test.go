package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A product that is added is found for both targets, and one that is converted, exact or meant is not.
func TestFused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module mutant\n\ngo 1.26\n",
		"rate.go": `package mutant

import "math"

func Rate(x, y, z float64) float64 { return x*y + z }
func Kept(x, y, z float64) float64 { return float64(x*y) + z }
func Same(x, y float32, z float64) float64 { return float64(x)*float64(y) + z } // exact
func Said(x, y, z float64) float64 { return math.FMA(x, y, z) }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range targets {
		lines, err := fused(dir, target, "./...")
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "rate.go:5: ") {
			t.Errorf("%s: %q, want line 5 of rate.go alone", target, lines)
		}
	}
}
