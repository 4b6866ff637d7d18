package mlperf

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/nn"
	"gpipebench/train"
)

// Tests of experiments of the kind cells, of steps that are given and of small ones that are
// modelled.

func loaded[S, V any](t *testing.T, id string, _ cells.Kind[S, V]) *cells.Experiment[S, V] {
	return labtest.Loaded[*cells.Experiment[S, V]](t, Paper.Experiment(id).Load)
}

// What does not go together is refused, and keys hold the figures of the accelerator.
func TestModelledSpecs(t *testing.T) {
	for id, cases := range map[string][][3]string{
		"update-sharding": {
			{"{x: 64, y: 32}", "{x: 4, y: 4}", "more cores than the one before"},
			{"{x: 8, y: 4}", "{x: 1, y: 1}", "two cores or more"},
			{"bn_scope: 8", "bn_scope: 3", "batch norm over 3 of 32 cores"},
			{"quick: {expected: 20s, largest: 4}", "quick: {expected: 20s, largest: 5}", "want at most 4"},
			{"examples: 16 #", "examples: 65536 #", "in all"},
			{"tiled: \"off\"}\n  - {name: \"four", "tiled: maybe}\n  - {name: \"four", "want on, off"},
		},
		"distributed-evaluation": {
			{"{x: 64, y: 32}", "{x: 4, y: 4}", "more cores than the one before"},
			{"{x: 8, y: 4}", "{x: 1, y: 1}", "two cores or more"},
			{"bn_scope: 8", "bn_scope: 3", "batch norm over 3 of 2048 cores"},
			{"batch: 4096", "batch: 4095", "4095 examples on 32 cores"},
			{"held_out: 50000", "held_out: 0", "want a whole number from 1"},
			{"quick: {expected: 3s, most: 6}", "quick: {expected: 3s, most: 7}", "want at most 6"},
		},
		"benchmark-seconds": {
			{"{x: 64, y: 32}", "{x: 4, y: 4}", "more cores than the one before"},
			{"{x: 8, y: 4}", "{x: 1, y: 1}", "two cores or more"},
			{"bn_scope: 8", "bn_scope: 3", "batch norm over 3 of 2048 cores"},
			{"seconds: 72.41, bn_scope: 16", "seconds: 72.41, bn_scope: 3", "batch norm over 3 of 512 groups of 4 cores"},
			{"spatial: 4, epochs: 75, epoch_steps: 58, seconds: 80.39", "spatial: 3, epochs: 75, epoch_steps: 58, seconds: 80.39", "3 of 1024 cores for each image"},
			{"batch: 4096", "batch: 4095", "4095 examples on 32 cores"},
			{"epochs: 60.8", "epochs: 0", "above 0"},
			{"quick: {expected: 1s, most: 6}", "quick: {expected: 1s, most: 7}", "want at most 6"},
			{"examples: 1281167", "examples: 0", "either the network's examples or the steps"},
			{"epochs: 3.2, epoch_steps: 1087", "epochs: 3.2", "either the network's examples or the steps"},
		},
		"spatial-partitioning": {
			{"cores: [1, 2,", "cores: [2, 1,", "want 1 first"},
			{"cores: [1, 2,", "cores: [1, 8,", "in ascending order"},
			{"examples: [4, 8, 1]", "examples: []", "at least one"},
			{"batches: 1}", "batches: 9}", "want at most 3"},
			{"accelerator: tpuv3", "accelerator: abacus", "unknown accelerator"},
		},
		"gradient-summation": {
			{"sides: [2, 4,", "sides: [4, 2,", "in ascending order"},
			{"accelerator: tpuv3", "accelerator: abacus", "unknown accelerator"},
		},
		"bfloat16-rules": {
			{"id: logits", "id: nothing", "unknown rule \"nothing\""},
			{"  - {id: logits, what: logits that the loss reads, paper: 32}\n", "", "no rule \"logits\""},
			{"batch: 16", "batch: 1", "want a whole number from 2"},
		},
		"mask-rcnn-partitioning": {
			{"height: 832", "height: 800.5", "height"},
			{"height: 832", "height: 840", "multiples of 32"},
			{"depth: 50", "depth: 34", "want 50, 101 or 152"},
			{"cores: [1, 2, 4]", "cores: [2, 4]", "want 1 first"},
			{"examples: [4, 2]", "examples: []", "at least one"},
			{"examples: [4, 2]", "examples: [4]", "2 images on 4 cores"},
			{"batch: 128, spatial: 4, epochs: 14, epoch_steps: 924, seconds: 3447.63", "batch: 127, spatial: 4, epochs: 14, epoch_steps: 924, seconds: 3447.63", "as many on each group"},
			{"seconds: 6422.03", "seconds: 0", "above 0"},
			{"accelerator: tpuv3", "accelerator: abacus", "unknown accelerator"},
		},
	} {
		labtest.CheckRefused(t, Paper.Experiment(id), cases)
	}
	update, evaluation, seconds := loaded(t, "update-sharding", updateSharding), loaded(t, "distributed-evaluation", distributedEvaluation), loaded(t, "benchmark-seconds", benchmarkSeconds)
	spatial, sums, heads := loaded(t, "spatial-partitioning", spatialPartitioning), loaded(t, "gradient-summation", gradientSummation), loaded(t, "mask-rcnn-partitioning", maskRCNNPartitioning)
	for e, on := range map[lab.Experiment]*string{
		update: &update.Spec.Accelerator, evaluation: &evaluation.Spec.Accelerator, seconds: &seconds.Spec.Accelerator, spatial: &spatial.Spec.Accelerator, sums: &sums.Spec.Accelerator, heads: &heads.Spec.Accelerator,
	} {
		labtest.CheckKey(t, func(file string) lab.Experiment {
			*on = file
			return e
		})
	}
}

// A divided update takes less of a shorter step, and more links shorten the sum alone.
func TestUpdateMeasure(t *testing.T) {
	e := loaded(t, "update-sharding", updateSharding)
	e.Spec.Networks = []updateNetwork{{
		ID: "a", Name: "a", Model: train.Model{Name: train.Translator, Layers: 1, Dim: 256, FF: 512, Heads: 2, Vocab: 500, Seq: 8, Tied: "all"},
		Optimizer: "lars", Examples: 1,
	}}
	e.Spec.Tori, e.Spec.Conventions = []torus{{2, 2}, {4, 4}}, e.Spec.Conventions[:2]
	e.Spec.Profiles["quick"] = updateProfile{Largest: 2}
	all := cellstest.Measured(t, e)
	sample := func(links int, on torus, shard bool) updateStep {
		return all[e.Spec.cell("", e.Spec.Networks[0], e.Spec.Conventions[links], on, shard).Sample]
	}
	one, each, divided := sample(0, alone, false), sample(0, torus{4, 4}, false), sample(0, torus{4, 4}, true)
	if !(one.Update > each.Update && each.Update > divided.Update && divided.Update > 0 && divided.Seconds < each.Seconds && divided.State < each.State) {
		t.Errorf("alone %+v, together %+v, divided %+v", one, each, divided)
	}
	if four := sample(1, torus{4, 4}, false); !(four.Reduce < each.Reduce && four.Update == each.Update) {
		t.Errorf("four links %+v, one %+v", four, each)
	}
	testkit.Equal(t, len(all), 2+4+2, "samples")
}

// Forward passes are a part of the step, and a core by itself has those of its images.
func TestEvaluationMeasure(t *testing.T) {
	e := loaded(t, "distributed-evaluation", distributedEvaluation)
	e.Spec.Model = train.Model{Name: "resnet50", Width: 4, Image: 32, Classes: 10}
	e.Spec.Runs, e.Spec.Alone = []evaluationRun{{Torus: torus{4, 2}, Batch: 64}}, 64
	e.Spec.Profiles["quick"] = mostRuns{Most: 1}
	all := cellstest.Measured(t, e)
	rows := testkit.Must(e.Rows("quick"))(t)
	of := map[string]passes{}
	for _, c := range rows[0].Reads {
		of[c.As] = all[c.Sample]
	}
	step, few, many := of["step"], of["each"], of["alone"]
	if !(few.Forward > 0 && few.Forward < few.Seconds/2 && few.Forward < many.Forward && math.Abs(step.Forward/few.Forward-1) < 1e-9) {
		t.Errorf("8 cores %+v, one with as many images %+v, with all %+v", step, few, many)
	}
	testkit.Equal(t, len(all), 3, "samples")
}

// The step of a run is simulated with its own batch, cores and scope.
func TestSecondsMeasure(t *testing.T) {
	e := loaded(t, "benchmark-seconds", benchmarkSeconds)
	n := e.Spec.Networks[0]
	n.Model = train.Model{Name: "resnet50", Width: 4, Image: 32, Classes: 10}
	n.Runs = n.Runs[4:]
	var steps []podStep
	for i, r := range n.Runs {
		r.Torus, r.Batch = torus{4, 2 * (i + 1)}, 64
		made := testkit.Must(e.Spec.model(t.Context(), n, r))(t)
		steps = append(steps, made)
	}
	// The second has half as many examples a core, and batch norm over 8 of them: meetings.
	if few, many := steps[0], steps[1]; few.Seconds == many.Seconds || !few.Fits || few.Reduce >= many.Reduce {
		t.Errorf("8 cores %+v, 16 %+v", few, many)
	}
}

// Cores that divide images have the all-reduce and the update of as many that do not, and
// F and B of a group: with links and starts of operations that take no time they save almost
// all but one of the parts of them, and with slow links less.
func TestSecondsOfDividedImages(t *testing.T) {
	s := loaded(t, "benchmark-seconds", benchmarkSeconds).Spec
	n := s.Networks[2]
	n.Model = train.Model{Name: "ssd-resnet34", Width: 16, Image: 128, Classes: 5}
	r := n.Runs[len(n.Runs)-1]
	r.Torus, r.Scope, r.Batch = torus{8, 4}, "2", 32
	whole := r
	whole.Spatial, whole.Batch = 1, 128 // as many images on each core as on a group
	step := func(link string, r loggedRun) podStep {
		t.Helper()
		s.Accelerator = filepath.Join(t.TempDir(), "own.yaml")
		text := "name: own\nflops: {bf16: 1e12, f32: 1e12}\nmemory: 16GiB\nbandwidth: 1e15\noverhead: 0\nlink: {bandwidth: " + link + ", latency: 0}\n"
		testkit.NoError(t, os.WriteFile(s.Accelerator, []byte(text), 0o600))
		return testkit.Must(s.model(t.Context(), n, r))(t)
	}
	group, one := step("1e15", r), step("1e15", whole)
	if group.Reduce != one.Reduce || group.Update != one.Update {
		t.Errorf("four cores an image: all-reduce and update %v s, %v s; one: %v s, %v s", group.Reduce, group.Update, one.Reduce, one.Update)
	}
	if speedup := one.Seconds / group.Seconds; speedup < 3 || speedup > 4 {
		t.Errorf("four cores are %v times as fast as one", speedup)
	}
	slow, slowOne := step("1e9", r), step("1e9", whole)
	if saved, most := slowOne.Seconds-slow.Seconds, one.Seconds-group.Seconds; !(saved < most) {
		t.Errorf("slow links: %v s less, fast ones %v", saved, most)
	}
	// Slow links slow the all-reduce and what the four exchange, but do not add the group's own
	// sums of gradients (a ring of four), which are part of the all-reduce.
	layers := testkit.Must(n.Model.Build())(t)
	slower := slow.Seconds - slow.Reduce - (group.Seconds - group.Reduce)
	if ring := 2 * 3. / 4 * 4 * float64(nn.CountParams(layers)) / 1e9; !(slower < ring) {
		t.Errorf("slow links add %v s besides the all-reduce; the sums of four would be %v s of it", slower, ring)
	}
}

// The largest torus, worked out by hand: 25,557,032 gradients in float32, over links of
// 82 GB/s and a memory of 450 GB/s.
func TestSummationReport(t *testing.T) {
	e := loaded(t, "gradient-summation", gradientSummation)
	all := cellstest.Measured(t, e)
	testkit.Equal(t, len(all), len(e.Spec.Sides), "samples")
	r := cellstest.Report(t, e, func(_, sample string) summed { return all[sample] })
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	const bytes, latency = 4 * 25_557_032.0, 1e-6
	ring := 2 * (1023./1024*bytes/82e9 + 1023*latency)
	torus := 2 * (31./32*bytes/82e9 + 31*latency + 31./32*bytes/32/82e9 + 31*latency)
	tree := 2 * (1023./1024*bytes/82e9 + 10*latency)
	copied := 2 * bytes / 450e9
	labtest.CheckCells(t, table, table.Rows[len(table.Rows)-1], map[string]float64{
		"cores": 1024, "ring": ring, "tree": tree, "2d": torus, "ring / 2d": ring / torus, "gathered first": torus + 2*copied,
		"pipelined": torus, "speedup": (torus + 2*copied) / torus, "speedup, with overheads": (torus + 2*copied + 2*161*2e-6) / torus, "paper, more than": 1.5,
	})
	testkit.Equal(t, table.Rows[0][table.Column("paper, more than")].Text, lab.Absent.Text, "the paper's figure is on another torus too")
	// Where the copy takes longer than the sum, pipelined is as long as the copies.
	r = cellstest.Report(t, e, func(string, string) summed {
		return summed{Sums: map[string][2]float64{"2d": {1, 2}}, Copy: 1.5, Overheads: 0.25}
	})
	labtest.CheckCells(t, r.Tables[0], r.Tables[0].Rows[0], map[string]float64{"pipelined": 3.5, "gathered first": 6, "speedup, with overheads": 6.5 / 3.5})
}
