package seconds

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/nn"
	"gpipebench/train"
)

// A report of given steps is the arithmetic of these.
func TestReport(t *testing.T) {
	s := labtest.Loaded[*seconds](t, Definition.Load)
	log := records.New(s.Key("quick"))
	labtest.CheckLacking(t, s, log)
	if err := s.each("quick", func(n *network, r run) error {
		return log.Add(s.name(n, r), 0, sample{Seconds: 0.02, Reduce: 0.005, Fits: r.cores() != 32})
	}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	if n := len(table.Rows); n != 6+6+6+5 {
		t.Errorf("%d rows", n)
	}
	steps, images := 5.1*271, 72.8*1281167/32768
	for network, columns := range map[string]map[string]float64{
		"ResNet-50": {
			"examples a core": 16, "steps": images, "all-reduce": 25, "modelled s": 0.02 * images, "modelled / logged": 0.02 * images / 76.95, "logged s a step": 76.95 / images,
		},
		"Transformer": {"examples a core": 1, "cores an image": 1, "steps": steps, "modelled s": 0.02 * steps, "logged s": 50.86},
		"SSD":         {"examples a core": 1, "cores an image": 4, "steps": 75 * 58, "modelled s": 0.02 * 75 * 58},
	} {
		i := slices.IndexFunc(table.Rows, func(row []lab.Value) bool { return row[0].Text == network && row[1].Text == "2048" })
		labtest.CheckCells(t, table, table.Rows[i], columns)
	}
	if len(table.Notes) != 1 || !strings.Contains(table.Notes[0], "do not fit") {
		t.Errorf("notes %q", table.Notes)
	}
	if n := len(r.Tables[1].Rows); n != 8 {
		t.Errorf("%d figures in print", n)
	}
}

// The step of a run is simulated with its own batch, cores and scope.
func TestMeasure(t *testing.T) {
	s := labtest.Loaded[*seconds](t, Definition.Load)
	n := &s.Spec.Networks[0]
	n.Model = train.Model{Name: "resnet50", Width: 4, Image: 32, Classes: 10}
	n.Runs = n.Runs[4:]
	for i := range n.Runs {
		n.Runs[i].Torus.X, n.Runs[i].Torus.Y, n.Runs[i].Batch = 4, 2*(i+1), 64
	}
	s.Spec.Networks = s.Spec.Networks[:1]
	log := records.New(records.Key{Profile: "quick"})
	if err := s.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	var few, many sample
	if err := log.Get(s.name(n, n.Runs[0]), &few); err != nil {
		t.Fatal(err)
	}
	if err := log.Get(s.name(n, n.Runs[1]), &many); err != nil {
		t.Fatal(err)
	}
	// The second has half as many examples a core, and batch norm over 8 of them: meetings.
	if few.Seconds == many.Seconds || !few.Fits || few.Reduce >= many.Reduce {
		t.Errorf("8 cores %+v, 16 %+v", few, many)
	}
}

// Cores that divide images have the all-reduce and the update of as many that do not, and
// F and B of a group: with links and starts of operations that take no time they save almost
// all but one of so many parts of them, and with slow links less.
func TestSpatial(t *testing.T) {
	s := labtest.Loaded[*seconds](t, Definition.Load)
	n := &s.Spec.Networks[2]
	n.Model = train.Model{Name: "ssd-resnet34", Width: 16, Image: 128, Classes: 5}
	r := n.Runs[len(n.Runs)-1]
	r.Torus.X, r.Torus.Y, r.Scope, r.Batch = 8, 4, "2", 32
	whole := r
	whole.Spatial, whole.Batch = 1, 128 // as many images on each core as on a group
	step := func(link string, r run) *sample {
		t.Helper()
		s.Spec.Accelerator = filepath.Join(t.TempDir(), "own.yaml")
		text := "name: own\nflops: {bf16: 1e12, f32: 1e12}\nmemory: 16GiB\nbandwidth: 1e15\noverhead: 0\nlink: {bandwidth: " + link + ", latency: 0}\n"
		if err := os.WriteFile(s.Spec.Accelerator, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		made, err := s.simulate(t.Context(), n, r)
		if err != nil {
			t.Fatal(err)
		}
		return made
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
	layers, err := n.Model.Build()
	if err != nil {
		t.Fatal(err)
	}
	slower := slow.Seconds - slow.Reduce - (group.Seconds - group.Reduce)
	if ring := 2 * 3. / 4 * 4 * float64(nn.CountParams(layers)) / 1e9; !(slower < ring) {
		t.Errorf("slow links add %v s besides the all-reduce; the sums of four would be %v s of it", slower, ring)
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
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
	})
	s := labtest.Loaded[*seconds](t, Definition.Load)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		s.Spec.Accelerator = file
		return s
	})
}
