package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/timeline"
)

func TestRoundSizes(t *testing.T) {
	for most, want := range map[int]string{0: "", 1: "1", 2: "1 2", 5: "1 2 3 4", 24: "1 2 3 4 6 8 12 16 24"} {
		if got := joinWith(roundSizes(most), " "); got != want {
			t.Errorf("up to %d: %s, want %s", most, got, want)
		}
	}
}

// smallAccelerator is a file of one with a memory of so many KiB.
func smallAccelerator(t *testing.T, kib int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "small.yaml")
	text := fmt.Sprintf("name: small\nflops: {f32: 1e9}\nmemory: %dKiB\nbandwidth: 1e9\noverhead: 1e-6\nlink: {bandwidth: 1e8, through_host: true}\n", kib)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

var smallLM = Model{Name: "transformer-lm", Layers: 4, Dim: 32, FF: 64, Heads: 2, Vocab: 50, Seq: 8}

// The micro-batch that fills memory is the largest that fits, from wherever the
// search begins.
func TestFilledIsTheLargestThatFits(t *testing.T) {
	ctx := context.Background()
	for _, kib := range []int{1, 400, 900, 100000} {
		n := &scaleNetwork{Model: smallLM, Accelerator: smallAccelerator(t, kib), DType: "f32", Optimizer: "adam"}
		sizes := []int{3, 3}
		const most = 48
		m, err := newModeller(n, false)
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		for _, micro := range roundSizes(most) {
			s, err := m.step(ctx, sizes, micro, 4)
			if err != nil {
				t.Fatal(err)
			}
			if s.Fits {
				want = micro
			}
		}
		for _, known := range []int{1, 7, 48} {
			if m, err = newModeller(n, false); err != nil {
				t.Fatal(err)
			}
			got, err := m.filled(ctx, sizes, 4, known, most)
			if err != nil {
				t.Fatal(err)
			}
			if got.Micro != want || got.Fits != (kib > 1) {
				t.Errorf("%d KiB, from %d: %d examples, fits %v; want %d", kib, known, got.Micro, got.Fits, want)
			}
			if len(m.steps) > 5 {
				t.Errorf("%d KiB, from %d: %d simulations", kib, known, len(m.steps))
			}
			// Guesses that are far off.
			for _, guess := range []float64{1, 1000} {
				m.fill[m.key(sizes, known, 4)] = guess
				if got, err = m.filled(ctx, sizes, 4, known, most); err != nil || got.Micro != want {
					t.Errorf("%d KiB, guessing %v: %d examples, %v; want %d", kib, guess, got.Micro, err, want)
				}
			}
		}
	}
}

// What is cut by time is cut by the time of the micro-batch at hand.
func TestModellerCosts(t *testing.T) {
	ctx := context.Background()
	m, err := newModeller(&scaleNetwork{Model: smallLM, Accelerator: smallAccelerator(t, 400), DType: "f32", Optimizer: "adam"}, false)
	if err != nil {
		t.Fatal(err)
	}
	at := func(cost Cost, micro int) float64 {
		costs, err := m.costs(ctx, cost, micro)
		if err != nil || len(costs) != 6 {
			t.Fatal(costs, err)
		}
		return costs[2]
	}
	if !(at(Time, 16) > 2*at(Time, 1)) || at(FLOPs, 16) != at(FLOPs, 1) || at(Memory, 16) != at(Memory, 1) || at(Memory, 1) == at(FLOPs, 1) {
		t.Errorf("time %v and %v, FLOPs %v, memory %v", at(Time, 1), at(Time, 16), at(FLOPs, 1), at(Memory, 1))
	}
	published := at(Time, 16)
	n := &scaleNetwork{Model: smallLM, Accelerator: smallAccelerator(t, 400), DType: "f32", Optimizer: "adam", change: whatIfs["half the arithmetic rate"]}
	if m, err = newModeller(n, false); err != nil {
		t.Fatal(err)
	}
	if got := at(Time, 16); !(got > 1.2*published && got < 2*published) {
		t.Errorf("at half the arithmetic rate %v s, as published %v", got, published)
	}
}

// smallScale is a table of one network that is modelled in no time.
func smallScale(t *testing.T) *paperScale {
	s := &paperScale{
		K: []int{2, 3}, M: []int{1, 4}, Base: cell{2, 1},
		Conventions: conventionsSpec{
			Cuts:   []cutSpec{{"min-variance", "flops"}, {"min-max", "time"}, {"block", "memory"}},
			Splits: []string{"coarse", "fine"}, Recompute: []string{"early", "late"}, Batches: []string{"filled", "shrunk", "fixed"}, Most: 48,
		},
	}
	n := &scaleNetwork{ID: "small", Name: "Small", Model: smallLM, Accelerator: smallAccelerator(t, 400), DType: "f32", Optimizer: "adam", Batch: 16, Splits: []string{"coarse", "fine"}, Reach: 10}
	for i, c := range s.cells() {
		n.Paper = append(n.Paper, amoebaCell{paperCell: paperCell{c, verbatim{fmt.Sprint(i + 1), float64(i + 1)}}})
	}
	s.Networks = []*scaleNetwork{n}
	if p := s.check(); p != nil {
		t.Fatal(p.path, p.err)
	}
	return s
}

// What a cell says is what simulate says.
func TestPaperScaleMeasures(t *testing.T) {
	s := smallScale(t)
	n := s.Networks[0]
	log := NewLog(Key{})
	for range 2 { // once is enough
		if err := s.measure(context.Background(), log, Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := 2 * 4 * 3; len(log.names) != want {
		t.Errorf("%d samples, want %d", len(log.names), want)
	}
	late := convention{s.Conventions.Cuts[1], "fine", "late", "fixed"}
	step, seconds, err := s.step(log, n, late, cell{3, 4})
	if err != nil {
		t.Fatal(err)
	}
	sim := Simulating{Model: smallLM, Setup: Setup{Partitions: 3, MicroBatches: 4, Cost: Time, LateRecompute: true}, Accelerator: n.Accelerator, Batch: 16, Optimizer: "adam"}
	sim.Model.Fine = true
	sim.DType, _ = ParseDType("f32")
	r, err := sim.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if r.StepSeconds != seconds || !slices.Equal(r.Partition, step.Partition) || r.Fits != step.Fits {
		t.Errorf("%v s, cut %v, fits %v; simulate says %v s, %v, %v", seconds, step.Partition, step.Fits, r.StepSeconds, r.Partition, r.Fits)
	}
	for _, c := range s.cells() {
		for _, v := range s.conventions(n) {
			fixed, _, err := s.step(log, n, convention{v.cut, v.split, v.recompute, "fixed"}, c)
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := s.step(log, n, v, c)
			if want := map[bool]int{true: fixed.Micro}[fixed.Fits]; v.batch == "shrunk" && want > 0 && got.Micro != want {
				t.Errorf("K = %d, M = %d: shrunk to %d, though %d fit", c.K, c.M, got.Micro, want)
			}
			if v.batch == "fixed" && got.Micro*c.M != 16 {
				t.Errorf("K = %d, M = %d: fixed batch of %d", c.K, c.M, got.Micro*c.M)
			}
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := s.measure(ctx, NewLog(Key{}), Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// fillScale gives a log steps by which a cell's throughput is K times what of
// says for its convention.
func fillScale(t *testing.T, log *Log, s *paperScale, of func(c cell, cut cutSpec, batch, recompute string) float64) {
	t.Helper()
	for _, n := range s.Networks {
		for _, split := range n.Splits {
			for _, c := range s.cells() {
				for _, cut := range s.Conventions.Cuts {
					step := func(batch string) scaleStep {
						micro := len(batch) + c.K
						seconds := func(recompute string) float64 {
							return float64(micro*c.M) / (float64(c.K) * of(c, cut, batch, recompute))
						}
						return scaleStep{Partition: make([]int, c.K), Micro: micro, Fits: true, Early: seconds("early"), Late: seconds("late"), Free: seconds("free")}
					}
					if err := log.Add(scaleName(n, split, cut, c), 0, scaleSample{step("filled"), step("shrunk"), step("fixed")}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// Errors are those of the convention, without the cell that is 1.
func TestPaperScaleErrors(t *testing.T) {
	s := smallScale(t)
	n := s.Networks[0]
	log := NewLog(Key{})
	// K = 2, 3 at M = 1, 4: the paper's 1, 2, 3, 4 against 1, 3, 2, 3 with an
	// early, filled batch.
	fillScale(t, log, s, func(c cell, cut cutSpec, batch, recompute string) float64 {
		rate := map[cell]float64{{2, 1}: 1, {3, 1}: 3, {2, 4}: 2, {3, 4}: 3}[c] / float64(c.K)
		if c == (cell{3, 4}) && (batch != "filled" || recompute != "early") {
			rate *= map[string]float64{"late": 2, "early": 4. / 3, "free": 3}[recompute]
		}
		return rate
	})
	standard := s.conventions(n)[0]
	e, err := s.errors(log, n, standard)
	if err != nil {
		t.Fatal(err)
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-12 }
	if last, all := (1./3+1./4)/2, (1./2+1./3+1./4)/3; !near(e.last, last) || !near(e.all, all) || !math.IsNaN(e.torchLast) {
		t.Errorf("%+v; want %v at the largest M, %v in all, and nothing of torchgpipe", e, last, all)
	}
	if free := (1./3 + 5./4) / 2; !near(e.free, free) {
		t.Errorf("with free links %v, want %v", e.free, free)
	}
	n.Paper[3].Torchgpipe = verbatim{"6", 6}
	fixed := standard
	fixed.batch = "fixed"
	if e, err = s.errors(log, n, fixed); err != nil || !near(e.last, (1./3+0)/2) || !near(e.torchAll, 1./3) || !near(e.torchLast, 1./3) {
		t.Errorf("%+v, %v", e, err)
	}
	table, err := errorTable(log, "errors", []scaleGoal{{"it", s, s.Networks, 20}})
	if err != nil {
		t.Fatal(err)
	}
	if row := table.Rows[0]; !strings.Contains(row[0], "(default)") || row[1] != "29.2%" || row[2] != "0 of 1" {
		t.Errorf("default: %q", row)
	}
	if row := table.Rows[2]; row[1] != "16.7%" || row[2] != "1 of 1" {
		t.Errorf("%q", row)
	}
	cells, conventions, err := s.tables(log, "t", "Table", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(cells[0].Rows[3][:7], " "); got != "3 4 4 3.00 -25% 3.00 6.00" {
		t.Errorf("cell: %s", got)
	}
	if !strings.Contains(cells[0].Notes[0], "misses by 19.2 points") || !strings.Contains(cells[0].Notes[1], "16.7%") {
		t.Errorf("notes: %q", cells[0].Notes)
	}
	if len(conventions[0].Rows) != 1+len(s.conventions(n)) {
		t.Errorf("%d rows for %d conventions", len(conventions[0].Rows), len(s.conventions(n)))
	}
}

// A step over a link is the same whether the link is there while it is timed or
// in the replay alone.
func TestCrossing(t *testing.T) {
	link := timeline.Link{Bandwidth: 1e6, ThroughHost: true}
	for _, model := range []Model{smallLM, {Name: "amoebanetd", Layers: 3, Filters: 8, Image: 32, Classes: 3}} {
		training := Training{
			Model: model, Batch: 4, Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
			Setup: Setup{Partitions: 3, MicroBatches: 2, Device: gpipe.Emulated, Threads: 1, Link: link},
		}
		trainer, _, err := training.open(context.Background(), toTrain)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := timingBatch(model, 4, 1)
		if err != nil {
			t.Fatal(err)
		}
		res, err := trainer.Step(context.Background(), batch)
		if err != nil {
			t.Fatal(err)
		}
		sizes, _ := trainer.Sizes()
		trainer.Close()
		out, _, err := handedOn(model)
		if err != nil {
			t.Fatal(err)
		}
		run := timedRun{training: training, over: &crossing{link, out}}
		free := *res.Times
		free.Link, free.Boundary = timeline.Link{}, nil
		tl, err := run.crossed(&free, sizes).Replay()
		if err != nil {
			t.Fatal(err)
		}
		if tl.Span() != res.Seconds {
			t.Errorf("%s: %v s, with the link in place %v", model.Name, tl.Span(), res.Seconds)
		}
	}
}

// loadedTable3 is Table 3 and records of even stages in its smoke profile.
func loadedTable3(t *testing.T) (*table3, *Log) {
	t.Helper()
	t3 := loaded[*table3](t, loadTable3)
	log := NewLog(t3.Key("smoke"))
	fillRounds(t, log, t3.rounds(t3.spec.Profiles["smoke"]), 0, even)
	fillScale(t, log, &t3.spec.paperScale, func(cell, cutSpec, string, string) float64 { return 1 })
	for round := range t3.spec.Profiles["smoke"].Rounds {
		if err := log.Add(coreRate(round), 0, 9.3e8); err != nil { // a ten-thousandth of the P100's peak
			t.Fatal(err)
		}
	}
	return t3, log
}

// On even stages a fast link leaves theory, PCI-E costs something, and more if
// the smaller network's traffic is not allowed for.
func TestTable3Report(t *testing.T) {
	e, log := loadedTable3(t)
	r, err := e.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	table := r.Tables[0]
	column := map[string]int{}
	for i, c := range table.Columns {
		column[c.Name] = i
	}
	for _, row := range table.Rows {
		if row[column["measured, fast link"]] != row[column["theory, even"]] {
			t.Errorf("%q: not theory's", row)
		}
		if row[column["reference, to scale"]] != row[column["measured, PCI-E, to scale"]] {
			t.Errorf("%q: not its own reference", row)
		}
	}
	var lost []float64
	for _, row := range r.Tables[1].Rows {
		for i, c := range r.Tables[1].Columns {
			if c.Name == "communication" {
				var share float64
				fmt.Sscanf(row[i], "%f%%", &share)
				lost = append(lost, share)
			}
		}
	}
	for i := 0; i < len(lost); i += 3 {
		if !(lost[i] > 0 && lost[i+1] > lost[i] && lost[i+2] == 0) {
			t.Errorf("shares of communication to scale, by the FLOP and over a fast link: %v", lost[i:i+3])
		}
	}
	ratios, err := e.linksOf(log, e.spec.Networks[1], e.spec.Profiles["smoke"].Models[1])
	if err != nil {
		t.Fatal(err)
	}
	// The width is 1/128, and so is what a layer computes with each float that
	// it hands on, but for attention's products over the sequence: 1024/8 times.
	if l := ratios.strict(); l.Bandwidth != 16e9/1e4 || !l.ThroughHost || l.Latency != 0 || math.Abs(ratios.traffic/128-1) > 0.05 {
		t.Errorf("link %+v, %v times the traffic; want 1.6 MB/s, 128", l, ratios.traffic)
	}
	short := NewLog(log.Key)
	if _, err := e.Report(short, nil); err == nil || !strings.Contains(err.Error(), "no sample") {
		t.Errorf("without records: %v", err)
	}
}

// A what-if is the default convention, with samples of its own.
func TestWhatIfs(t *testing.T) {
	s := smallScale(t)
	names := map[string]bool{scaleName(s.Networks[0], "coarse", s.Conventions.Cuts[0], s.Base): true}
	for name := range whatIfs {
		w := s.what(name)
		all := w.conventions(w.Networks[0])
		if len(all) != 1 || all[0] != s.conventions(s.Networks[0])[0] || joinWith(w.M, " ") != "1 4" {
			t.Errorf("%s: conventions %v, M = %v", name, all, w.M)
		}
		names[scaleName(w.Networks[0], "coarse", w.Conventions.Cuts[0], w.Base)] = true
	}
	if len(names) != 1+len(whatIfs) {
		t.Errorf("%d names for %d what-ifs and the published figures", len(names), len(whatIfs))
	}
}

// A what-if changes what is simulated, wherever an accelerator's figures go.
func TestWhatIfsChangeSteps(t *testing.T) {
	a, err := accelerator.Named("p100")
	if err != nil {
		t.Fatal(err)
	}
	n := &scaleNetwork{ID: "small", Model: smallLM, Accelerator: "p100", DType: "f32", Optimizer: "adam"}
	step := func(change func(*accelerator.Accelerator)) *scaleStep {
		n.change = change
		m, err := newModeller(n, false)
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.step(context.Background(), []int{2, 2, 2}, 2, 4)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	published := step(nil)
	for _, name := range []string{"half the memory bandwidth", "element-wise operations fused", "transfers beside computation"} {
		if changed := step(whatIfs[name]); changed.Early == published.Early {
			t.Errorf("%s: the step is as long as before", name)
		}
	}
	if free := step(func(a *accelerator.Accelerator) { a.Link = timeline.Link{} }); free.Early != published.Free {
		t.Errorf("no link: %v s, want %v", free.Early, published.Free)
	}
	if tight := step(func(a *accelerator.Accelerator) { a.Memory = 1 }); tight.Fits || !published.Fits {
		t.Error("a memory of one byte suffices")
	}
	besideComputation(a)
	if a.Link.ThroughHost || a.Link.Bandwidth != 8e9 || a.Link.Latency != 20e-6 {
		t.Errorf("link %+v", a.Link)
	}
}

// The modelled tables of both specs come from one log.
func TestTable2ModelledReport(t *testing.T) {
	m := loaded[*table2Modelled](t, loadTable2Modelled)
	log := NewLog(m.Key("smoke"))
	one := func(cell, cutSpec, string, string) float64 { return 1 }
	fillScale(t, log, &m.spec.paperScale, one)
	fillScale(t, log, &m.table3.spec.paperScale, one)
	for _, name := range m.spec.WhatIf {
		fillScale(t, log, m.spec.what(name), one)
		// Table 3's networks twice as fast with K = 8: 1, 2, 8 against 1.7 and 2.7, 1.8 and 3.3.
		fillScale(t, log, m.table3.spec.what(name), func(c cell, _ cutSpec, _, _ string) float64 { return map[int]float64{2: 1, 4: 1, 8: 2}[c.K] })
	}
	r, err := m.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Throughput K/2: AmoebaNet 1, 2, 4 against 1.21, 1.84, 3.48.
	want := percent(((1 - 1/1.21) + (2/1.84 - 1) + (4/3.48 - 1)) / 3)
	if row := r.Tables[2].Rows[0]; row[1] != want {
		t.Errorf("%q; want %s for AmoebaNet", row, want)
	}
	third := percent(((2/1.7 - 1) + (8/2.7 - 1) + (2/1.8 - 1) + (8/3.3 - 1)) / 4)
	if row := r.Tables[3].Rows[1]; row[1] != want+" [4.00]" || row[3] != third+" [8.00, 8.00]" {
		t.Errorf("what if: %q; want %s and %s", row, want, third)
	}
}

// One core's rate is that of matrix products, not of their overhead.
func TestMeasureCore(t *testing.T) {
	if testing.Short() {
		t.Skip("slow without assembly")
	}
	rate, err := measureCore(context.Background())
	if err != nil || !(rate > 1e8 && rate < 1e13) {
		t.Errorf("%v, %v", rate, err)
	}
}

// The base is 1, cutting by time helps stages whose FLOPs mislead, and nothing
// beats stages that are even.
func TestAblation(t *testing.T) {
	loaded, err := loadAblation()
	if err != nil {
		t.Fatal(err)
	}
	e := loaded.(*ablation)
	e.spec.K = []int{2, 4}
	e.spec.Networks = []*ablationNetwork{{Name: "small", Model: Model{Name: "resnet50", Width: 8, Image: 64, Classes: 10}, Accelerator: "tpuv2", DType: "bf16", Optimizer: "rmsprop", Micro: 4}}
	log := NewLog(Key{})
	for range 2 { // once is enough
		if err := e.Measure(context.Background(), log, Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	cuts := len(e.cuts())
	if len(log.names) != 2 || len(r.Tables[0].Rows) != 2 || len(r.Tables[1].Rows) != 2*cuts || len(r.Files) != 2 {
		t.Errorf("%d samples, tables of %d and %d rows, %d files", len(log.names), len(r.Tables[0].Rows), len(r.Tables[1].Rows), len(r.Files))
	}
	for _, name := range log.names {
		var s ablationSample
		if err := log.Get(name, &s); err != nil {
			t.Fatal(err)
		}
		best := slices.Index(e.cuts(), cutSpec{"min-max", "time"})
		for i, c := range s.Cuts {
			if c.ByTime > s.Cuts[best].ByTime+1e-12 {
				t.Errorf("%s: %v is more even in time, %v, than min-max, %v", name, e.cuts()[i], c.ByTime, s.Cuts[best].ByTime)
			}
			if s.Even > c.Step.Early {
				t.Errorf("%s: %v takes %v s, even stages %v", name, e.cuts()[i], c.Step.Early, s.Even)
			}
		}
	}
	if row := r.Tables[0].Rows[0]; row[5] != "1.00" {
		t.Errorf("the base is %s", row[5])
	}
}

func TestPaperScaleSpecErrors(t *testing.T) {
	for _, c := range []struct{ file, old, replacement, want string }{
		{"table2_modelled.yaml", "partitioner: lingvo", "partitioner: luck", "min-max"},
		{"table2_modelled.yaml", "cost: time", "cost: luck", "want flops, time, memory"},
		{"table2_modelled.yaml", "recompute: [early, late]", "recompute: [early, never]", `unknown "never": want early, late`},
		{"table2_modelled.yaml", "recompute: [early, late]", "recompute: []", "an empty list: want at least one entry"},
		{"table2_modelled.yaml", "recompute: [early, late]", "recompute: [late, early]", "those of table3.yaml"},
		{"table2_modelled.yaml", "accelerator: tpuv2", "accelerator: abacus", "unknown accelerator"},
		{"table2_modelled.yaml", "dtype: bf16", "dtype: bf8", "want bf16 or f32"},
		{"table2_modelled.yaml", "optimizer: rmsprop", "optimizer: luck", "momentum"},
		{"table2_modelled.yaml", "splits: [coarse]", "splits: [fine]", "want coarse first"},
		{"table2_modelled.yaml", "batch: 128", "batch: 120", "not of one size"},
		{"table2_modelled.yaml", "most: 4096", "most: 31", "not of one size"},
		{"table2_modelled.yaml", "base: {k: 2, m: 1}", "base: {k: 4, m: 1}", "value in the paper is 1"},
		{"table2_modelled.yaml", "      - {k: 4, m: 4, value: 1.26, torchgpipe: 1.666}\n", "", "no value for K = 4, M = 4"},
		{"table2_modelled.yaml", "  - half the arithmetic rate", "  - twice the luck", `unknown "twice the luck": want activations not`},
		{"table3.yaml", "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
		{"table3.yaml", "    batch: 32\n    rounds", "    batch: 33\n    rounds", "not of one size"},
		{"table3.yaml", "partitioner: min-variance\n", "partitioner: luck\n", "min-max"},
		{"table3.yaml", "      - {name: amoebanetd, layers: 18, filters: 16, image: 64, classes: 10}\n", "", "1 models for 2 networks"},
		{"ablation.yaml", "[min-variance, min-max, lingvo, block]", "[luck]", "min-max"},
		{"ablation.yaml", "[flops, time, memory]", "[time, memory]", "one of the partitioners"},
		{"ablation.yaml", "micro: 4", "micro: 0", "want a whole number from 1 to"},
		{"ablation.yaml", "optimizer: rmsprop", "optimizer: luck", "momentum"},
	} {
		var err error
		text := edited(t, c.file, c.old, c.replacement)
		switch c.file {
		case "table2_modelled.yaml":
			var loaded Experiment
			if loaded, err = Load("table2-modelled"); err != nil {
				t.Fatal(err)
			}
			e := &table2Modelled{table3: loaded.(*table2Modelled).table3}
			err = decodeSpec(c.file, text, &e.spec, e.check)
		case "table3.yaml":
			e := &table3{}
			err = decodeSpec(c.file, text, &e.spec, e.check)
		default:
			e := &ablation{}
			err = decodeSpec(c.file, text, &e.spec, e.check)
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.file+":") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.replacement, err, c.want)
		}
	}
}

// What is modelled hangs on an accelerator's figures, so records are keyed by
// them; its description and its sources change nothing.
func TestKeysHangOnAccelerators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte("name: own\nflops: {bf16: 1e12, f32: 1e12}\nbandwidth: 1e11\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"table1", "table2", "table2-amoebanet", "table2-modelled", "table3", "ablation", "figure3"} {
		e, err := Load(id)
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *table1:
			e.spec.Networks[1].Accelerator = file
		case *table2:
			e.modelled.Networks[0].Accelerator = file
		case *amoeba:
			e.modelled.Networks[0].Accelerator = file
		case *table2Modelled:
			e.table3.spec.Networks[1].Accelerator = file
		case *table3:
			e.spec.Networks[1].Accelerator = file
		case *ablation:
			e.spec.Networks[1].Accelerator = file
		case *figure3:
			e.spec.Modelled.Accelerator = file
		}
		write("memory: 1GiB")
		key := e.Key("smoke")
		if write("memory: 1GiB\ndescription: mine\nsources: {memory: a guess}"); e.Key("smoke") != key {
			t.Errorf("%s: another description gives another key", id)
		}
		if write("memory: 2GiB"); e.Key("smoke") == key {
			t.Errorf("%s: more memory gives the same key", id)
		}
	}
}

func TestModelledSpecErrors(t *testing.T) {
	const good = "{accelerator: tpuv2, dtype: bf16, optimizer: rmsprop, batch: 32, most: 4096}"
	for want, change := range map[string][2]string{
		"unknown accelerator":                    {"tpuv2", "abacus"},
		"want bf16 or f32":                       {"bf16", "bf8"},
		"momentum":                               {"rmsprop", "luck"},
		"\"0\": want a whole number from 1":      {"batch: 32", "batch: 0"},
		"at most 31 examples: want 32 or more":   {"4096", "31"},
		"modelled: no most: want a whole number": {", most: 4096", ""},
	} {
		f := &figure3{}
		err := decodeSpec("x.yaml", edited(t, "figure3.yaml", good, strings.Replace(good, change[0], change[1], 1)), &f.spec, f.check)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", change[1], err, want)
		}
	}
}

func TestSigned(t *testing.T) {
	for x, want := range map[float64]string{0.126: "+13%", -0.126: "-13%", 0.004: "+0%", -0.004: "+0%", 0: "+0%"} {
		if got := signed(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}
