package main

import (
	"strings"
	"testing"
)

// What does not fit is said of each device, with what the accounting counts.
func TestSimulateSaysWhatDoesNotFit(t *testing.T) {
	for accounting, gradients := range map[string]int{"paper": 0, "full": 2} {
		status, out, errs := execute(t, "simulate", "--layers", "200", "--dim", "2048", "--ff", "8192", "--batch", "4", "-k", "2", "-m", "4", "--accounting", accounting)
		if status != 0 || errs != "" {
			t.Fatal(status, errs)
		}
		if strings.Count(out, " lacks ") != 2 || strings.Count(out, "gradients") != gradients {
			t.Errorf("%s accounting:\n%s", accounting, out)
		}
	}
}
