package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/experiments/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/simulate"
)

// What does not fit is said of each device, with what the accounting counts.
func TestSimulateSaysWhatDoesNotFit(t *testing.T) {
	for accounting, gradients := range map[string]int{"paper": 0, "full": 2} {
		out, errs := succeeds(t, "simulate", "--layers", "200", "--dim", "2048", "--ff", "8192", "--batch", "4", "-k", "2", "-m", "4", "--accounting", accounting)
		testkit.Equal(t, errs, "")
		_, lacks, _ := strings.Cut(out, " lacks ")
		if strings.Count(out, " lacks ") != 2 || strings.Count(lacks, ", gradients ") != gradients || strings.Contains(out, "gradients are not counted") != (gradients == 0) {
			t.Errorf("%s accounting:\n%s", accounting, out)
		}
	}
}

// Plan takes the networks and devices that simulate and describe take: all of their flags
// but those of what it searches itself or what follows from that, of bits alone, and of pictures of
// one step.
func TestPlanTakesWhatSimulateTakes(t *testing.T) {
	plan := newPlan().Flags()
	searched := strings.Fields("partitions micro-batches chunks checkpoint balance partitioner cost trace memory timeline groups blocks")
	for _, c := range []*cobra.Command{newSimulate(), newDescribe()} {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if plan.Lookup(f.Name) == nil && !slices.Contains(searched, f.Name) {
				t.Errorf("%s takes --%s, and plan does not", c.Name(), f.Name)
			}
		})
	}
}

// One replica needs no torus. The text of a cluster's step names all devices, says what tasks recompute and add up
// within themselves, and sums memory over the stages of one replica.
func TestSimulateSaysWhatAClusterDoes(t *testing.T) {
	const cluster = "simulate --batch 24 -k 2 -m 2 --tensor 2 --recompute full --all-reduce 2d"
	one, _ := succeeds(t, strings.Fields(cluster)...)
	three, _ := succeeds(t, strings.Fields(cluster+" --replicas 3 --topology torus:3x1 --batch 72")...)
	_, stages, _ := strings.Cut(one, "(one device of each stage")
	testkit.Has(t, three, "on 3 x 2 x 2 x tpuv3", "sums of parts ", stages)
	if strings.Contains(three, "recompute 0.0%") {
		t.Error(three)
	}
}

// What looks impossible in an outcome is explained there, and nothing else is.
func TestOddTimesAreExplained(t *testing.T) {
	for line, negative := range map[string]bool{"-k 4 -m 1": true, "-k 4 -m 32": false, "-k 1 -m 4": false} {
		out, _ := succeeds(t, strings.Fields("simulate --model amoebanetd --layers 18 --filters 256 --batch 32 "+line)...)
		testkit.Equal(t, strings.Contains(out, "imbalance -"), negative, "%s: a negative imbalance in\n%s\n", line, out)
		testkit.Equal(t, strings.Contains(out, "a negative imbalance: "), negative, "%s: it is explained in\n%s\n", line, out)
	}
	for _, c := range []struct {
		step, closed float64
		explained    bool
	}{{2, 1, false}, {1, 1, false}, {0.995, 1, false}, {0.9, 1, true}} {
		var b strings.Builder
		printBelow(&b, c.step, c.closed)
		testkit.Equal(t, b.Len() > 0, c.explained, "a step of %v s, closed form %v s: %q", c.step, c.closed, &b)
	}
}

// Every device's idle time has causes: with its tasks and the rest of its work they are the
// step.
func TestSimulateSaysWhoseBubbleItIs(t *testing.T) {
	for _, line := range []string{"-k 4 -m 8", "-k 4 -m 8 --schedule 1f1b --checkpoint never", "-k 2 -m 2 --replicas 3 --batch 32"} {
		r := decodedJSON[simulate.Simulation](t, strings.Fields("simulate --layers 9 --dim 256 --ff 1024 "+line)...)
		links := 0.0
		for i, d := range r.Devices {
			if work := r.StepSeconds - d.Idle.Sum() - d.BusySeconds; work < -1e-9 || work > 0.5*r.StepSeconds || d.Idle.Sum() <= 0 {
				t.Errorf("%s, device %d of a step of %v s: busy %v, idle %+v", line, i, r.StepSeconds, d.BusySeconds, d.Idle)
			}
			links += d.Idle.Link
		}
		if links <= 0 {
			t.Errorf("%s: no time on links", line)
		}
	}
}

// Every modelled cell of Tables 2 and 3 has the command of its step, and what these commands say is the cell.
func TestCommandsOfCells(t *testing.T) {
	for _, id := range []string{"table2-modelled", "table3-modelled", "calibrated-table2"} {
		name := "../../results/reference/tables/" + id + ".csv"
		f := testkit.Must(os.Open(name))(t)
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		testkit.NoError(t, err)
		column := func(id string) int { return slices.Index(rows[0], id) }
		if column("command") < 0 {
			t.Fatal(name, rows[0])
		}
		base, network := 0.0, ""
		for _, row := range rows[1:] {
			args := strings.Fields(row[column("command")])
			r := decodedJSON[simulate.Simulation](t, args[1:]...)
			if row[0] != network { // a network's first row is relative to itself
				base, network = r.ExamplesPerSecond, row[0]
			}
			modelled, _ := strings.CutSuffix(row[column("modelled")], " *")
			if got := fmt.Sprintf("%.2f", r.ExamplesPerSecond/base); args[0] != "gpipebench" || got != modelled {
				t.Errorf("%s: %q says %s, the cell %s", name, args, got, modelled)
			}
			if unfit := strings.HasSuffix(row[column("fullest-device")], "*"); unfit == r.Fits {
				t.Errorf("%s: %q fits: %v, memory %s", name, args, r.Fits, row[column("fullest-device")])
			}
		}
	}
}

// A printed spec is one that --spec takes, with other K and M if they are given.
func TestPrintSpec(t *testing.T) {
	own, _ := succeeds(t, "table2", "--print-spec")
	testkit.Equal(t, own, gpipe.Paper.Experiment("table2").Spec(), "the program's own")
	other, _ := succeeds(t, "table2", "--print-spec", "table2-amoebanet")
	testkit.Has(t, other, "\nexperiment: table2-amoebanet\n")
	edited, _ := succeeds(t, "table2", "-k", "8,2,4,16", "--m", "1,8", "--print-spec")
	testkit.Has(t, edited, "\nk: [2, 4, 8, 16]\nm: [1, 8]\n", "# Conventions that the paper does not state.\n")
	name := filepath.Join(t.TempDir(), "mine.yaml")
	testkit.NoError(t, os.WriteFile(name, []byte(edited), 0o600))
	again, _ := succeeds(t, "table2", "--spec", name, "--print-spec")
	testkit.Equal(t, again, edited, "of the same file")
}
