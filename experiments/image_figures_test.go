package experiments

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
)

// fillRounds gives every run's samples to a log, as devices would leave them on
// which a task of stage k takes of(run, k) per forward unit and twice as much
// backward. A forward unit is one part in K M of the network. Setup and update
// take ends nanoseconds.
func fillRounds(t *testing.T, log *Log, r *rounds, ends int64, of func(run *timedRun, stage int) float64) {
	t.Helper()
	for i := range r.runs {
		run := &r.runs[i]
		setup := run.training.Setup
		lists, err := schedule.Build(setup.Schedule, setup.Partitions, setup.MicroBatches, setup.Checkpoint, setup.LateRecompute)
		if err != nil {
			t.Fatal(err)
		}
		s := &timedSample{}
		for k := range setup.Partitions {
			unit := int64(float64(1<<24) / float64(setup.Partitions*setup.MicroBatches) * of(run, k))
			f, rec, b := make([]int64, setup.MicroBatches), make([]int64, setup.MicroBatches), make([]int64, setup.MicroBatches)
			for _, task := range lists[k] {
				switch task.Kind {
				case schedule.Forward:
					f[task.Micro] = unit
				case schedule.Recompute:
					rec[task.Micro] = unit
				case schedule.Backward:
					b[task.Micro] = 2 * unit
				}
			}
			s.F, s.R, s.B = append(s.F, f), append(s.R, rec), append(s.B, b)
			s.Setup, s.Update = append(s.Setup, ends), append(s.Update, ends)
			s.Partition, s.Peak = append(s.Partition, 1), append(s.Peak, 1<<20)
		}
		tl, err := s.times(lists).Replay()
		if err != nil {
			t.Fatal(err)
		}
		s.Seconds = tl.Span()
		for round := range r.count {
			for step := range run.steps {
				if err := log.Add(run.sample(round, step), 1, s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range r.runs {
		if err := log.Add(modelledName(r.runs[i].name), 0, modelledSample{32, 2, 64, 2}); err != nil {
			t.Fatal(err)
		}
	}
	log.Session = Provenance{Time: "then", Machine: Machine{CPU: "a machine", Cores: 2, GOMAXPROCS: 2}}
}

func even(*timedRun, int) float64 { return 1 }

// imageExperiments are the experiments on networks for images, with their
// rounds in the smoke profile.
func imageExperiments(t *testing.T) map[string]struct {
	Experiment
	rounds *rounds
} {
	t.Helper()
	out := map[string]struct {
		Experiment
		rounds *rounds
	}{}
	for _, id := range []string{"figure3", "breakdown", "table2-amoebanet"} {
		e, err := Load(id)
		if err != nil {
			t.Fatal(err)
		}
		var r *rounds
		switch e := e.(type) {
		case *figure3:
			r = e.rounds(e.spec.Profiles["smoke"])
		case *breakdown:
			r = e.rounds(e.spec.Profiles["smoke"])
		case *amoeba:
			r = e.rounds(e.spec.Profiles["smoke"])
		}
		out[id] = struct {
			Experiment
			rounds *rounds
		}{e, r}
	}
	return out
}

// On even stages theory, closed form and measurement are one.
func TestImageReportsOnEvenStages(t *testing.T) {
	for id, e := range imageExperiments(t) {
		log := NewLog(e.Key("smoke"))
		if _, err := e.Report(log, nil); err == nil || !strings.Contains(err.Error(), "no sample") {
			t.Errorf("%s without records: %v", id, err)
		}
		fillRounds(t, log, e.rounds, 0, even)
		if a, ok := e.Experiment.(*amoeba); ok {
			fillBeside(t, log, a.modelled)
		}
		r, err := e.Report(log, log)
		if err != nil {
			t.Fatal(err)
		}
		main := r.Tables[0]
		column := map[string]int{}
		for i, c := range main.Columns {
			column[c.Name] = i
		}
		for _, same := range map[string][][]string{
			"figure3":          {{"theory, even", "closed form", "measured", "reference"}},
			"breakdown":        {{"theory, K = 2", "measured, K = 2", "reference, K = 2"}, {"theory, K = 4", "measured, K = 4", "reference, K = 4"}},
			"table2-amoebanet": {{"theory, even", "measured, cut by flops", "measured, cut by time", "reference, flops", "reference, time"}},
		}[id] {
			for _, name := range same {
				at, ok := column[name]
				if !ok {
					t.Fatalf("%s has no column %s", id, name)
				}
				for _, row := range main.Rows {
					if want := row[column[same[0]]]; row[at] != want {
						t.Errorf("%s, row %q: %s %s, want %s", id, row[0], name, row[at], want)
					}
				}
			}
		}
		for _, f := range r.Files {
			if f.Text == "" {
				t.Errorf("%s: %s is empty", id, f.Name)
			}
		}
		checkParts(t, r.Tables[1])
	}
}

// checkParts checks a table of even stages' steps: the shares add up, nothing is
// lost between stages, and a baseline recomputes nothing.
func checkParts(t *testing.T, table *Table) {
	t.Helper()
	for _, row := range table.Rows {
		share := map[string]float64{}
		var sum float64
		for i, c := range table.Columns {
			if text, ok := strings.CutSuffix(row[i], "%"); ok {
				v, err := strconv.ParseFloat(text, 64)
				if err != nil {
					t.Fatal(err)
				}
				share[c.Name] = v
				if c.Name != "classic bubble" {
					sum += v
				}
			}
			if c.Name == "balance" && row[i] != "1.00" {
				t.Errorf("%s, %q: balance %s of even stages", table.ID, row, row[i])
			}
		}
		naive := strings.Contains(strings.Join(row[:2], " "), "naive")
		if math.Abs(sum-100) > 0.5 || share["imbalance"] != 0 || (share["recompute"] == 0) != naive || share["bubble"] > share["classic bubble"] {
			t.Errorf("%s: %q", table.ID, row)
		}
	}
}

// The mean of the stages' times over the largest.
func TestBalance(t *testing.T) {
	e := imageExperiments(t)["breakdown"]
	log := NewLog(e.Key("smoke"))
	fillRounds(t, log, e.rounds, 0, func(_ *timedRun, stage int) float64 { return float64(3 - 2*min(stage, 1)) })
	runs, err := e.rounds.all(log)
	if err != nil {
		t.Fatal(err)
	}
	if got := runs[breakdownRun(2)].balance(); math.Abs(got-2./3) > 1e-6 {
		t.Errorf("stages of 3 and 1: %v, want 2/3", got)
	}
}

// The figures that are derived: even stages at M = 32, f:r:b = 1:1:2.
func TestFigure3Theory(t *testing.T) {
	e := imageExperiments(t)["figure3"]
	log := NewLog(e.Key("smoke"))
	fillRounds(t, log, e.rounds, 0, even)
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	// naive-2 takes 3 forwards of the network. Pipeline-k: ((31+k) 3 + 32) / (32 k).
	for i, k := range []float64{0, 2, 4, 8, 0, 1, 2, 4, 8} {
		want := "1.00"
		if k > 0 {
			want = fmt.Sprintf("%.2f", 3*32*k/((31+k)*3+32))
		}
		row := r.Tables[0].Rows[i]
		if row[4] != want {
			t.Errorf("%s: %s, want %s", row[1], row[4], want)
		}
		if row[8] != "1.00" {
			t.Errorf("%s: work %s, which no pipeline changes", row[1], row[8])
		}
	}
}

// The parts of every measured step add up to it, whatever the stages, and so do
// the table's columns; the paper's do as well.
func TestBreakdownColumnsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	e := imageExperiments(t)["breakdown"]
	log := NewLog(e.Key("smoke"))
	fillRounds(t, log, e.rounds, 1<<18, func(*timedRun, int) float64 { return 0.5 + rng.Float64() })
	runs, err := e.rounds.all(log)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range runs {
		if sum := m.parts.Sum(); math.Abs(sum-m.parts.Step) > 1e-9*m.parts.Step || m.parts.Step != m.span {
			t.Errorf("%s: the parts add up to %v, the step takes %v", name, sum, m.parts.Step)
		}
	}
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Tables[1].Columns {
		for _, row := range r.Tables[1].Rows {
			if row[0] != "K=4" {
				continue // stages may be even by chance, or, one at a time, no matter
			}
			if c.Name == "communication" != (row[i] == "0.0%") && slices.Contains([]string{"communication", "computation", "imbalance", "setup", "update"}, c.Name) {
				t.Errorf("%s of %s: %s", c.Name, row[0], row[i])
			}
		}
	}
	table := r.Tables[0]
	for i, c := range table.Columns[1:] {
		if strings.HasPrefix(c.Name, "95%") {
			continue
		}
		var sum float64
		for _, row := range table.Rows {
			if row[i+1] == "-" {
				continue
			}
			share, err := strconv.ParseFloat(strings.TrimSuffix(row[i+1], "%"), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += share
		}
		if math.Abs(sum-100) > 0.05*float64(len(table.Rows)) {
			t.Errorf("%s: the parts add up to %.1f%%", c.Name, sum)
		}
	}
	for _, f := range r.Files {
		if f.Name == "timeline.svg" {
			if err := xml.Unmarshal([]byte(f.Text), new(struct{})); err != nil || !strings.Contains(f.Text, "Naive") || !strings.Contains(f.Text, "GPipe") {
				t.Errorf("timeline.svg: %v", err)
			}
			return
		}
	}
	t.Error("no timeline.svg")
}

// The theory of Table 2's AmoebaNet at the paper's scale is what its
// multiply-adds alone give: far above what the paper measured.
func TestTable2AmoebaNetTheory(t *testing.T) {
	e := imageExperiments(t)["table2-amoebanet"].Experiment.(*amoeba)
	costs, err := flopsOf(e.spec.PaperModel)
	if err != nil {
		t.Fatal(err)
	}
	base := e.setup(FLOPs, e.spec.Base)
	for k, want := range map[int]string{2: "1.65", 4: "3.11", 8: "5.34"} {
		got, err := against(func(s Setup) (float64, error) { return cutStep(s, costs) }, base, e.setup(FLOPs, cell{k, 32}))
		if err != nil || fmt.Sprintf("%.2f", got) != want {
			t.Errorf("K = %d, M = 32: %.3f, %v; want %s", k, got, err, want)
		}
	}
}

// Measuring leaves what a report needs, and what is there is not measured again.
// The networks are smaller than those of the smoke profile.
func TestImageExperimentsMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	small := Model{Name: "amoebanetd", Layers: 3, Filters: 8, Image: 48, Classes: 3}
	for id, e := range imageExperiments(t) {
		e.rounds.warmUp = 0
		for i := range e.rounds.runs {
			e.rounds.runs[i].training.Model = small
		}
		log := NewLog(e.Key("smoke"))
		for i := range e.rounds.runs {
			if err := log.Add(modelledName(e.rounds.runs[i].name), 0, modelledSample{32, 2, 64, 2}); err != nil {
				t.Fatal(err)
			}
		}
		if a, ok := e.Experiment.(*amoeba); ok {
			fillBeside(t, log, a.modelled)
		}
		if err := inThisProcess(context.Background(), e.rounds, log, Silent{}); err != nil {
			t.Fatal(err)
		}
		r, err := e.Report(log, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range r.Tables {
			if err := table.Write(io.Discard, "markdown"); err != nil {
				t.Error(err)
			}
		}
		n := len(log.names)
		if err := inThisProcess(context.Background(), e.rounds, log, Silent{}); err != nil || len(log.names) != n {
			t.Errorf("%s measured again: %d samples more, %v", id, len(log.names)-n, err)
		}
	}
}

// Modelled steps: a larger mini-batch pays where it fits, and none fits a
// network that is too large.
func TestModelled(t *testing.T) {
	m := modelledSpec{Accelerator: "tpuv2", DType: "bf16", Optimizer: "rmsprop", Batch: 32, Most: 100}
	log := NewLog(Key{})
	s := Setup{Partitions: 2, MicroBatches: 4}
	for name, model := range map[string]Model{
		"small": {Name: "resnet50", Width: 8, Image: 64, Classes: 10}, "large": {Name: "amoebanetd", Layers: 36, Filters: 1024, Classes: 10},
	} {
		for range 2 { // once is enough
			if err := m.measure(context.Background(), log, name, model, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	var small, large modelledSample
	if err := errors.Join(log.Get(modelledName("small"), &small), log.Get(modelledName("large"), &large)); err != nil {
		t.Fatal(err)
	}
	if small.Batch != 32 || small.Filled != 96 || !(small.FilledSeconds > small.Seconds && small.FilledSeconds < 3*small.Seconds) {
		t.Errorf("a small network: %+v; want 96 examples in less than three times as long as 32", small)
	}
	if large.Filled != 0 || !(large.Seconds > 0) {
		t.Errorf("a network that is too large: %+v", large)
	}
	if got, err := m.cells(log, "small", "large"); err != nil || got[1] != "-" {
		t.Errorf("cells %q, %v", got, err)
	}
	if _, err := m.cells(log, "small", "none"); err == nil {
		t.Error("no error without a sample")
	}
}

// A run that goes on keeps the partition that it began with.
func TestRoundsKeepThePartition(t *testing.T) {
	run := timedRun{name: "run", steps: 1, training: Training{
		Model: Model{Name: "amoebanetd", Layers: 3, Filters: 8, Image: 48, Classes: 3}, Batch: 2,
		Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
		Setup: Setup{Partitions: 2, MicroBatches: 1, Device: gpipe.Emulated, Threads: 1},
	}}
	r := &rounds{id: "e", count: 2, seed: 1, runs: []timedRun{run}}
	log := NewLog(Key{Experiment: "e"})
	if err := log.Add(run.sample(0, 0), 1, &timedSample{Partition: []int{1, 8}}); err != nil {
		t.Fatal(err)
	}
	if err := inThisProcess(context.Background(), r, log, Silent{}); err != nil {
		t.Fatal(err)
	}
	var s timedSample
	if err := log.Get(run.sample(1, 0), &s); err != nil || joinInts(s.Partition) != "1,8" {
		t.Errorf("partition %v, %v; want that of the first sample", s.Partition, err)
	}
	// One that is cut by time is cut by figures that others have too.
	r.runs[0].training.Setup.Cost = Time
	log = NewLog(Key{Experiment: "e"})
	if err := inThisProcess(context.Background(), r, log, Silent{}); err != nil {
		t.Fatal(err)
	}
	costs := layerCosts{{run.training.Model, 2, 1, 1}: {1, 1, 1, 1, 1, 1, 1, 1, 9}}
	if sizes, err := costs.balance(context.Background(), &r.runs[0].training); err != nil || joinInts(sizes) != "8,1" {
		t.Errorf("cut %v, %v; want 8,1", sizes, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := inThisProcess(ctx, r, NewLog(Key{Experiment: "e"}), Silent{}); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "e, run: ") {
		t.Errorf("cancelled: %v", err)
	}
}

func TestImageSpecErrors(t *testing.T) {
	for _, c := range []struct{ file, old, replacement, want string }{
		{"figure3.yaml", "base: naive-2", "base: Pipeline-2", "value in the paper is 1"},
		{"figure3.yaml", "schedule: naive, ", "schedule: none, ", "want gpipe, naive or 1f1b"},
		{"figure3.yaml", "    batch: 32", "    batch: 33", "not of one size"},
		{"figure3.yaml", "m: 32", "m: 0", "want a whole number from 1 to 65536"},
		{"figure3.yaml", "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
		{"figure3.yaml", "naive_steps: 1", "naive_steps: 0", "want a whole number from 1 to 1000"},
		{"table2_amoebanet.yaml", "steps: {1: 1, 4: 1, 32: 1}", "steps: {1: 1, 32: 1}", "no steps for M = 4"},
		{"figure3.yaml", "      - {name: resnet101, width: 8, image: 64, classes: 10}\n", "", "1 models for 2 networks"},
		{"figure3.yaml", "dtype: bf16", "dtype: bf8", "want bf16 or f32"},
		{"figure3.yaml", "most: 4096", "most: 31", "want 32 or more"},
		{"breakdown.yaml", "m: 16", "m: 15", "not of one size"},
		{"breakdown.yaml", "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
		{"table2_amoebanet.yaml", "costs: [flops, time]", "costs: [flops, luck]", "want flops, time, memory"},
		{"table2_amoebanet.yaml", "  - {k: 4, m: 4, value: 1.26, torchgpipe: 1.666}\n", "", "no value for K = 4, M = 4"},
		{"table2_amoebanet.yaml", "base: {k: 2, m: 1}", "base: {k: 4, m: 1}", "value in the paper is 1"},
		{"table2_amoebanet.yaml", "    batch: 32", "    batch: 31", "not of one size"},
		{"table2_amoebanet.yaml", "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
	} {
		var err error
		text := edited(t, c.file, c.old, c.replacement)
		switch c.file {
		case "figure3.yaml":
			e := &figure3{}
			err = decodeSpec(c.file, text, &e.spec, e.check)
		case "breakdown.yaml":
			e := &breakdown{}
			err = decodeSpec(c.file, text, &e.spec, e.check)
		default:
			e := &amoeba{}
			err = decodeSpec(c.file, text, &e.spec, e.check)
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.file+":") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.replacement, err, c.want)
		}
	}
}
