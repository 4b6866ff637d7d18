package gpipe

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/kernel"
	"gpipebench/nn"
)

var update = flag.Bool("update", false, "write golden files anew: only after a change that should move them; then read them")

// TestGoldenPlans compares plans with testdata/plans.txt: of several networks, run in several
// ways, the memory of each device to the byte, and digests of all else that is known before
// anything runs (offsets, task lists, traffic). After a change that must move them, run it
// with -update, and read the difference.
func TestGoldenPlans(t *testing.T) {
	if kernel.Profile() != "avx512" {
		t.Skip("the workspaces are those of one profile of kernels")
	}
	gathered := smallTranslation.pipeline(t)
	gathered.TiedGradients = GatherTied
	var got strings.Builder
	for _, network := range []struct {
		name string
		Pipeline
		data func(int) nn.Batch
	}{
		{"transformer-lm", blocky.pipeline(t), blocky.data},
		{"transformer-lm-bf16", blocky.pipeline(t).bf16(), blocky.data},
		{"transformer", smallTranslation.pipeline(t), smallTranslation.data},
		{"transformer-gathered", gathered, smallTranslation.data},
		{"gnmt", recurrentTranslator(t), smallTranslation.data},
		{"resnet", smallResNet.pipeline(t, false), smallResNet.data},
	} {
		for _, way := range []struct {
			name string
			set  func(p *Pipeline)
		}{
			{"K = 1", func(p *Pipeline) { p.MicroBatches = 1 }},
			{"gpipe always", func(p *Pipeline) { p.Partitions = 3 }},
			{"gpipe except-last late", func(p *Pipeline) { p.Partitions, p.Checkpoint, p.LateRecompute = 3, schedule.ExceptLast, true }},
			{"gpipe never", func(p *Pipeline) { p.Partitions, p.Checkpoint = 3, schedule.Never }},
			{"naive", func(p *Pipeline) { p.Partitions, p.Schedule, p.MicroBatches = 2, schedule.Naive, 1 }},
			{"1f1b never", func(p *Pipeline) { p.Partitions, p.Schedule, p.Checkpoint = 3, schedule.OneFOneB, schedule.Never }},
			{"interleaved", func(p *Pipeline) { p.Partitions, p.Schedule, p.MicroBatches = 2, schedule.Interleaved, 2 }},
			{"zb-h1 never", func(p *Pipeline) { p.Partitions, p.Schedule, p.Checkpoint = 2, schedule.ZBH1, schedule.Never }},
			{"R = 2", func(p *Pipeline) { p.Partitions, p.Replicas = 2, 2 }},
			{"R = 2, G = 4, divided", func(p *Pipeline) {
				p.Partitions, p.Replicas, p.Groups, p.MicroBatches = 2, 2, 4, 1
				p.ShardUpdate = p.TiedGradients == ReduceTied
			}},
			{"forward only", func(p *Pipeline) { p.Partitions, p.EMA = 2, nn.EMA{Decay: 0.9} }},
			{"S = 2", func(p *Pipeline) { p.Partitions, p.Spatial = 2, 2 }},
			{"M = 2 over all replicas", func(p *Pipeline) { p.Replicas, p.MicroBatches, p.BatchNormScope = 2, 2, AllScope }},
		} {
			if way.name == "S = 2" && network.name != "resnet" {
				continue
			}
			p, in := network.Pipeline, InputOf(network.data(0))
			p.MicroBatches = 3
			way.set(&p)
			p.Evaluating, p.Predicting = in, in
			if way.name == "forward only" {
				in = Input{}
			}
			fmt.Fprintf(&got, "%s, %s:", network.name, way.name)
			if err := writePlans(&got, p, in); err != nil {
				fmt.Fprintf(&got, " %v\n", err)
			}
		}
	}
	const file = "testdata/plans.txt"
	if *update {
		noError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want := must(os.ReadFile(file))(t)
	wanted := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(wanted) || line != wanted[i] {
			t.Fatalf("line %d: %s\nwant: %s", i+1, line, wanted[min(i, len(wanted)-1)])
		}
	}
}

// writePlans writes a line of digests and one for each device.
func writePlans(to *strings.Builder, p Pipeline, in Input) error {
	n, err := p.network(in)
	if err != nil {
		return err
	}
	digest := func(v any) string { return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, v)))[:12] }
	lists, traffic := "none", "none"
	if n.Trains() {
		portions := n.LargestPortions(plan.Training)
		var all [][]schedule.Task
		for r := range portions {
			all = append(all, portions[r].Lists...)
		}
		lists, traffic = digest(all), digest(n.PlanTraffic(portions))
	}
	fmt.Fprintf(to, " %v layers, lists %s, traffic %s\n", n.Sizes, lists, traffic)
	line := func(plan *Plan) {
		fmt.Fprintf(to, "  %v: %v = %d, offsets %s\n", plan.At, plan.Bytes, plan.Peak, digest([]any{plan.Regions, plan.Chunks, plan.State, plan.Discard, plan.Elsewhere, plan.Normed}))
	}
	for _, plan := range n.MemoryPlans() {
		line(plan)
		for _, part := range plan.Parts {
			line(part)
		}
	}
	return nil
}
