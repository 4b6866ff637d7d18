package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// Plan takes the networks and devices that simulate and describe take: all of their flags
// but those of what it searches itself, those of pictures of one step, and those of
// replicas: it searches one pipeline.
func TestPlanTakesWhatSimulateTakes(t *testing.T) {
	plan := newPlan().Flags()
	searched := strings.Fields("partitions micro-batches checkpoint balance partitioner cost trace memory timeline replicas groups shard-update all-reduce topology")
	for _, c := range []*cobra.Command{newSimulate(), newDescribe()} {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if plan.Lookup(f.Name) == nil && !slices.Contains(searched, f.Name) {
				t.Errorf("%s takes --%s, and plan does not", c.Name(), f.Name)
			}
		})
	}
}

// What looks impossible in an outcome is explained there, and nothing else is.
func TestOddTimesAreExplained(t *testing.T) {
	for line, negative := range map[string]bool{"-k 4 -m 1": true, "-k 4 -m 32": false, "-k 1 -m 4": false} {
		status, out, errs := execute(t, strings.Fields("simulate --model amoebanetd --layers 18 --filters 256 --batch 32 "+line)...)
		if status != 0 || strings.Contains(out, "imbalance -") != negative || strings.Contains(out, "a negative imbalance: ") != negative {
			t.Errorf("%s: exit status %d, %s%s", line, status, out, errs)
		}
	}
	for _, c := range []struct {
		step, closed float64
		explained    bool
	}{{2, 1, false}, {1, 1, false}, {0.995, 1, false}, {0.9, 1, true}} {
		var b strings.Builder
		printBelow(&b, c.step, c.closed)
		if (b.Len() > 0) != c.explained {
			t.Errorf("a step of %v s, closed form %v s: %q", c.step, c.closed, &b)
		}
	}
}
