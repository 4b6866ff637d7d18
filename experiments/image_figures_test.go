package experiments

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe/ablation"
	"gpipebench/experiments/gpipe/breakdown"
	"gpipebench/experiments/gpipe/consistency/accuracy"
	"gpipebench/experiments/gpipe/delayed"
	"gpipebench/experiments/gpipe/figure3"
	"gpipebench/experiments/gpipe/table1"
	"gpipebench/experiments/gpipe/table2"
	"gpipebench/experiments/gpipe/table2/amoebanet"
	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/gpipe/table2/modelled/modelledtest"
	"gpipebench/experiments/gpipe/table3"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/rounds/roundstest"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
)

// imageExperiments are the experiments on networks for images, with their
// rounds in the smoke profile.
func imageExperiments(t *testing.T) map[string]struct {
	suite.Experiment
	rounds *rounds.Rounds
} {
	t.Helper()
	out := map[string]struct {
		suite.Experiment
		rounds *rounds.Rounds
	}{}
	for _, id := range []string{"figure3", "breakdown", "table2-amoebanet"} {
		e, err := Load(id)
		if err != nil {
			t.Fatal(err)
		}
		var r *rounds.Rounds
		switch e := e.(type) {
		case *figure3.Figure3:
			r = e.Rounds(e.Spec.Profiles["smoke"])
		case *breakdown.Breakdown:
			r = e.Rounds(e.Spec.Profiles["smoke"])
		case *amoebanet.Amoeba:
			r = e.Rounds(e.Spec.Profiles["smoke"])
		}
		out[id] = struct {
			suite.Experiment
			rounds *rounds.Rounds
		}{e, r}
	}
	return out
}

// On even stages theory, closed form and measurement are one.
func TestImageReportsOnEvenStages(t *testing.T) {
	for id, e := range imageExperiments(t) {
		log := records.New(e.Key("smoke"))
		if _, err := e.Report(log, nil); err == nil || !strings.Contains(err.Error(), "no sample") {
			t.Errorf("%s without records: %v", id, err)
		}
		roundstest.FillRounds(t, log, e.rounds, 0, roundstest.Even)
		if a, ok := e.Experiment.(*amoebanet.Amoeba); ok {
			modelledtest.FillBeside(t, log, a.Modelled)
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
				for _, row := range main.Printed() {
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
func checkParts(t *testing.T, table *suite.Table) {
	t.Helper()
	for _, row := range table.Printed() {
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
	log := records.New(e.Key("smoke"))
	roundstest.FillRounds(t, log, e.rounds, 0, func(_ *rounds.Run, stage int) float64 { return float64(3 - 2*min(stage, 1)) })
	runs, err := e.rounds.All(log)
	if err != nil {
		t.Fatal(err)
	}
	if got := runs[breakdown.BreakdownRun(2)].Balance(); math.Abs(got-2./3) > 1e-6 {
		t.Errorf("stages of 3 and 1: %v, want 2/3", got)
	}
}

// The figures that are derived: even stages at M = 32, f:r:b = 1:1:2.
func TestFigure3Theory(t *testing.T) {
	e := imageExperiments(t)["figure3"]
	log := records.New(e.Key("smoke"))
	roundstest.FillRounds(t, log, e.rounds, 0, roundstest.Even)
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
		row := r.Tables[0].Printed()[i]
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
	log := records.New(e.Key("smoke"))
	roundstest.FillRounds(t, log, e.rounds, 1<<18, func(*rounds.Run, int) float64 { return 0.5 + rng.Float64() })
	runs, err := e.rounds.All(log)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range runs {
		if sum := m.Parts.Sum(); math.Abs(sum-m.Parts.Step) > 1e-9*m.Parts.Step || m.Parts.Step != m.Span {
			t.Errorf("%s: the parts add up to %v, the step takes %v", name, sum, m.Parts.Step)
		}
	}
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Tables[1].Columns {
		for _, row := range r.Tables[1].Printed() {
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
		for _, row := range table.Printed() {
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
	e := imageExperiments(t)["table2-amoebanet"].Experiment.(*amoebanet.Amoeba)
	costs, err := workload.FlopsOf(e.Spec.PaperModel)
	if err != nil {
		t.Fatal(err)
	}
	base := e.Setup(workload.FLOPs, e.Spec.Base)
	for k, want := range map[int]string{2: "1.65", 4: "3.11", 8: "5.34"} {
		got, err := rounds.Against(func(s workload.Setup) (float64, error) { return workload.CutStep(s, costs) }, base, e.Setup(workload.FLOPs, suite.Cell{K: k, M: 32}))
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
	small := workload.Model{Name: "amoebanetd", Layers: 3, Filters: 8, Image: 48, Classes: 3}
	for id, e := range imageExperiments(t) {
		e.rounds.WarmUp = 0
		for i := range e.rounds.Runs {
			e.rounds.Runs[i].Training.Model = small
		}
		log := records.New(e.Key("smoke"))
		for i := range e.rounds.Runs {
			if err := log.Add(figure3.ModelledName(e.rounds.Runs[i].Name), 0, figure3.ModelledSample{Batch: 32, Seconds: 2, Filled: 64, FilledSeconds: 2}); err != nil {
				t.Fatal(err)
			}
		}
		if a, ok := e.Experiment.(*amoebanet.Amoeba); ok {
			modelledtest.FillBeside(t, log, a.Modelled)
		}
		if err := rounds.InThisProcess(context.Background(), e.rounds, log, progress.Silent{}); err != nil {
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
		n := len(log.Names)
		if err := rounds.InThisProcess(context.Background(), e.rounds, log, progress.Silent{}); err != nil || len(log.Names) != n {
			t.Errorf("%s measured again: %d samples more, %v", id, len(log.Names)-n, err)
		}
	}
}

// Modelled steps: a larger mini-batch pays where it fits, and none fits a
// network that is too large.
func TestModelled(t *testing.T) {
	m := figure3.ModelledSpec{Accelerator: "tpuv2", DType: "bf16", Optimizer: "rmsprop", Batch: 32, Most: 100}
	log := records.New(records.Key{})
	s := workload.Setup{Partitions: 2, MicroBatches: 4}
	for name, model := range map[string]workload.Model{
		"small": {Name: "resnet50", Width: 8, Image: 64, Classes: 10}, "large": {Name: "amoebanetd", Layers: 36, Filters: 1024, Classes: 10},
	} {
		for range 2 { // once is enough
			if err := m.Measure(context.Background(), log, name, model, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	var small, large figure3.ModelledSample
	if err := errors.Join(log.Get(figure3.ModelledName("small"), &small), log.Get(figure3.ModelledName("large"), &large)); err != nil {
		t.Fatal(err)
	}
	if small.Batch != 32 || small.Filled != 96 || !(small.FilledSeconds > small.Seconds && small.FilledSeconds < 3*small.Seconds) {
		t.Errorf("a small network: %+v; want 96 examples in less than three times as long as 32", small)
	}
	if large.Filled != 0 || !(large.Seconds > 0) {
		t.Errorf("a network that is too large: %+v", large)
	}
	if got, err := m.Cells(log, "small", "large"); err != nil || got[1].Text != "-" {
		t.Errorf("cells %q, %v", got, err)
	}
	if _, err := m.Cells(log, "small", "none"); err == nil {
		t.Error("no error without a sample")
	}
}

// A run that goes on keeps the partition that it began with.
func TestRoundsKeepThePartition(t *testing.T) {
	run := rounds.Run{Name: "run", Steps: 1, Training: workload.Training{
		Model: workload.Model{Name: "amoebanetd", Layers: 3, Filters: 8, Image: 48, Classes: 3}, Batch: 2,
		Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
		Setup: workload.Setup{Partitions: 2, MicroBatches: 1, Device: gpipe.Emulated, Threads: 1},
	}}
	r := &rounds.Rounds{ID: "e", Count: 2, Seed: 1, Runs: []rounds.Run{run}}
	log := records.New(records.Key{Experiment: "e"})
	if err := log.Add(run.Sample(0, 0), 1, &rounds.Sample{Partition: []int{1, 8}}); err != nil {
		t.Fatal(err)
	}
	if err := rounds.InThisProcess(context.Background(), r, log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	var s rounds.Sample
	if err := log.Get(run.Sample(1, 0), &s); err != nil || suite.JoinWith(s.Partition, ",") != "1,8" {
		t.Errorf("partition %v, %v; want that of the first sample", s.Partition, err)
	}
	// A run may be cut by time.
	r.Runs[0].Training.Setup.Cost = workload.Time
	log = records.New(records.Key{Experiment: "e"})
	if err := rounds.InThisProcess(context.Background(), r, log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := rounds.InThisProcess(ctx, r, records.New(records.Key{Experiment: "e"}), progress.Silent{}); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "e, run: ") {
		t.Errorf("cancelled: %v", err)
	}
}

func TestImageSpecErrors(t *testing.T) {
	for _, c := range []struct {
		of                     suite.Definition
		old, replacement, want string
	}{
		{figure3.Definition, "base: naive-2", "base: Pipeline-2", "value in the paper is 1"},
		{figure3.Definition, "schedule: naive, ", "schedule: none, ", "want gpipe, naive or 1f1b"},
		{figure3.Definition, "    batch: 32", "    batch: 33", "not of one size"},
		{figure3.Definition, "m: 32", "m: 0", "want a whole number from 1 to 65536"},
		{figure3.Definition, "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
		{figure3.Definition, "naive_steps: 1", "naive_steps: 0", "want a whole number from 1 to 1000"},
		{amoebanet.Definition, "steps: {1: 1, 4: 1, 32: 1}", "steps: {1: 1, 32: 1}", "no steps for M = 4"},
		{figure3.Definition, "      - {name: resnet101, width: 8, image: 64, classes: 10}\n", "", "1 models for 2 networks"},
		{figure3.Definition, "dtype: bf16", "dtype: bf8", "want bf16 or f32"},
		{figure3.Definition, "most: 4096", "most: 31", "want 32 or more"},
		{breakdown.Definition, "m: 16", "m: 15", "not of one size"},
		{breakdown.Definition, "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
		{amoebanet.Definition, "costs: [flops, time]", "costs: [flops, luck]", "want flops, time, memory"},
		{amoebanet.Definition, "  - {k: 4, m: 4, value: 1.26, torchgpipe: 1.666}\n", "", "no value for K = 4, M = 4"},
		{amoebanet.Definition, "base: {k: 2, m: 1}", "base: {k: 4, m: 1}", "value in the paper is 1"},
		{amoebanet.Definition, "    batch: 32", "    batch: 31", "not of one size"},
		{amoebanet.Definition, "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
	} {
		err := suitetest.Refused(t, c.of, c.old, c.replacement)
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) {
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
		case *table1.Experiment:
			e.Spec.Networks[1].Accelerator = file
		case *table2.Table2:
			e.Modelled.Networks[0].Accelerator = file
		case *amoebanet.Amoeba:
			e.Modelled.Networks[0].Accelerator = file
		case *modelled.Table2Modelled:
			e.Table3.Spec.Networks[1].Accelerator = file
		case *table3.Table3:
			e.Spec.Networks[1].Accelerator = file
		case *ablation.Ablation:
			e.Spec.Networks[1].Accelerator = file
		case *figure3.Figure3:
			e.Spec.Modelled.Accelerator = file
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
		err := suitetest.Refused(t, figure3.Definition, good, strings.Replace(good, change[0], change[1], 1))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", change[1], err, want)
		}
	}
}

func TestSpecErrorsSayWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"seed: 1", "sed: 1", "x.yaml:7:1: unknown field sed: want experiment, title, source, discard, seed, paper, paper_model, setup, profiles"},
		{"    seeds: [1, 2]", "    seds: [1, 2]", "x.yaml:19:5: profiles.smoke: unknown field seds: want expected, seeds, training"},
		{"filters: 8, image: 17", "filter: 8, image: 17", "unknown field filter: want name, layers, dim"},
		{"    seeds: [1, 2]", "    seeds: [1, two]", "x.yaml:19:16: profiles.smoke.seeds.1: \"two\": want a whole number of 1 or more"},
		{"    seeds: [1, 2]", "    seeds: 1", "x.yaml:19:12: profiles.smoke.seeds: \"1\": want a list"},
		{"seed: 1", "seed: -1", "x.yaml:7:7: seed: \"-1\": want a whole number of 1 or more"},
		{"      steps: 5", "      steps: [5]", "a list: want a whole number"},
		{"paper: 4", "paper: four", "four"},
		{"seed: 1", "seed: 1\nseed: 2", "x.yaml:8:1: field seed is there twice: want it once"},
		{"seed: 1", "seed: 1.9", "x.yaml:7:7: seed: \"1.9\": want a whole number of 1 or more"},
		{"seed: 1", "seed: ~", "x.yaml:7:7: seed: nothing: want a whole number of 1 or more"},
		{"seed: 1", "seed: 0x1p3", "x.yaml:7:7: seed: \"0x1p3\": want"},
		{"seed: 1\n", "", "x.yaml:3:1: no seed: want a whole number of 1 or more"},
		{"    seeds: [1, 2]", "    seeds: [1, 2, 1]", "x.yaml:19:19: profiles.smoke.seeds.2: this entry is there already, as entry 0: want each once"},
		{"    seeds: [1, 2]", "    seeds: [1, 0x1]", "profiles.smoke.seeds.1: this entry is there already"},
		{"    seeds: [1, 2]", "    seeds: []", "an empty list: want at least one entry"},
		{"    seeds: [1, 2]", "    seeds: [1, ~]", "profiles.smoke.seeds.1: nothing: want a whole number"},
		{"      lr: 0.02", "      lr: .nan", "\".nan\": want a number above 0 to 1000000000"},
		{"      lr: 0.02", "      lr: .inf", "\".inf\": want a number above 0 to 1000000000"},
		{"      lr: 0.02", "      lr: yes", "\"yes\": want a number above 0"},
		{"    expected: 5s", "    expected: [5s]", "want a duration up to 10000h, such as 90s or 3m"},
		{"checkpoint: never,", "checkpoint: sometimes,", "setup.checkpoint: unknown"},
		{"title: \"Delayed", "title: \"Dela\\eyed", "title: \"Dela\\x1byed"},
		{"title: \"Delayed", "title: \"Dela\\nyed", "want a line of text without control characters"},
		{"title:", "\"tit\\ele\":", "unknown field \"tit\\x1ble\": want experiment"},
		{"seed: 1", "seed: 1\n---\nseed: 2", "x.yaml:9:1: a second document: want one in a file"},
		{"seed: 1", "seed: 1\n--- [", "want YAML"},
		{"seed: 1", "seed: \"\xff\"", "x.yaml:7:8: a byte that is no UTF-8"},
		{"profiles:", "profiles: &p\n  full: *p", "profiles.full: unknown field full"},
	} {
		err := suitetest.Refused(t, delayed.Definition, c.old, c.replacement)
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", c.replacement, err, c.want)
		}
	}
}

// A spec of one's own runs instead of the one in the program, under a key of its
// own.
func TestSpecFile(t *testing.T) {
	raw := delayed.Definition.Spec()
	name := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(only ...string) (ids []string, key records.Key, err error) {
		r := Reproducing{Profile: "smoke", Only: only, Spec: name}
		list, _, err := r.load()
		for _, e := range list {
			ids, key = append(ids, e.ID()), e.Key("smoke")
		}
		return ids, key, err
	}
	write(strings.Replace(raw, "seeds: [1, 2]", "seeds: [5]", 1))
	ids, k, err := run()
	if err != nil || len(ids) != 1 || ids[0] != "delayed-reduction" {
		t.Fatalf("%q, %v", ids, err)
	}
	own, err := Load("delayed-reduction")
	if err != nil || own.Key("smoke").Spec == k.Spec {
		t.Errorf("the same key, %v", err)
	}
	seeds := 0
	err = Reproducing{Profile: "smoke", Spec: name}.Run(context.Background(), progress.Silent{}, func(_ suite.Experiment, r *suite.Report) error {
		for _, table := range r.Tables {
			if table.ID == "delayed-reduction-runs" {
				seeds = len(table.Rows) / 2
			}
		}
		return nil
	})
	if err != nil || seeds != 1 {
		t.Errorf("%d seeds, %v", seeds, err)
	}
	if _, _, err := run("table2"); err == nil || !strings.Contains(err.Error(), "is a spec of delayed-reduction: want one of table2") {
		t.Error(err)
	}
	for _, c := range []struct{ text, want string }{
		{strings.Replace(raw, "experiment: delayed-reduction", "experiment: figure9", 1), ":3:13: experiment \"figure9\": want one of table1, "},
		{"", ":1:1: experiment \"\": want one of"},
		{"a: [", "mine.yaml:1"},
		{strings.Replace(raw, "seed: 1", "sed: 1", 1), "mine.yaml:7:1: unknown field sed"},
	} {
		write(c.text)
		if _, _, err := run(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Whatever is in a spec, it is taken or refused with its file and in one line.
func FuzzSpec(f *testing.F) {
	of := []suite.Definition{delayed.Definition, accuracy.Definition, table3.Definition}
	for _, d := range of {
		f.Add(d.Spec())
	}
	for _, text := range []string{"", "a", "- 1", "seed: [", "seed: {a: 1}", "profiles: {smoke: 1}", "k: [0]\nm: [-1]", "&a [*a]", "paper: ~", "\xff", "setups: [{k: 1e9}]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range of {
			_, err := d.Load(suite.SpecFile{Name: "x.yaml", Text: []byte(text)})
			if err != nil && (!strings.HasPrefix(err.Error(), "x.yaml:") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

// What a spec of trainings must not be.
func TestTrialSpecs(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"margin: 5", "margin: 0", "x.yaml:%d:9: margin: \"0\": want a number above 0"},
		{"level: 0.05", "level: 0.5", "x.yaml:%d:8: level: \"0.5\": want a number above 0 to 0.499"},
		{"{k: 1, m: 1, checkpoint", "{k: 2, m: 1, checkpoint", "x.yaml:%d:5: setups.0: want K = 1"},
		{"{k: 2, m: 4, ", "{k: 2, m: 4, device: emulated, ", "x.yaml:%d:5: setups.1: trainings run beside"},
		{"seeds: [1, 2]\n", "seeds: []\n", "x.yaml:%d:12: profiles.smoke.seeds: an empty list: want at least one entry"},
	} {
		line := suitetest.LineWith(suitetest.Edited(t, accuracy.Definition, c.old, c.replacement), c.replacement)
		err := suitetest.Refused(t, accuracy.Definition, c.old, c.replacement)
		if want := fmt.Sprintf(c.want, line); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", c.replacement, err, want)
		}
	}
}
