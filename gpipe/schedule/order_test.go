package schedule

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// generated is a schedule as its generator makes it.
type generated struct {
	name  string
	place Placement
	micro int
	lists [][]Task
}

// all returns every generator's schedule for a number of devices and micro-batches.
func all(t *testing.T, devices, micro int) (all []generated) {
	add := func(name string, p Placement, lists [][]Task) {
		all = append(all, generated{fmt.Sprintf("%s K=%d M=%d", name, devices, micro), p, micro, Checkpointed(lists, Never, false)})
	}
	for _, s := range Plain() {
		lists := testkit.Must(Build(s, devices, micro, Never, false))(t)
		add(s.String(), Straight(devices), lists)
	}
	for chunks := 1; chunks <= 4; chunks++ {
		add(fmt.Sprintf("interleaved of %d", chunks), Loop(devices, chunks), interleaved(devices, chunks, micro))
	}
	add("zb-h1", Straight(devices), ZeroBubble(devices, micro, false))
	add("zb-h2", Straight(devices), ZeroBubble(devices, micro, true))
	for _, s := range []Schedule{ZBV, VHalf, VMin} {
		add(s.String(), Vee(devices), s.vees(devices, 2, micro))
	}
	if micro >= 2*devices {
		add("dualpipe-v", Vee(devices), dualPipeV(devices, 2, micro))
	}
	return all
}

// Whatever the generators make is a schedule, by the definition, with every checkpoint
// mode, and comes back from its CSV. Under -short there are fewer sizes.
func TestGeneratorsMakeSchedules(t *testing.T) {
	most, micros := 5, []int{1, 2, 3, 5, 8, 11, 13}
	if testing.Short() {
		most, micros = 4, []int{1, 3, 8}
	}
	for devices := 1; devices <= most; devices++ {
		for _, micro := range micros {
			for _, g := range all(t, devices, micro) {
				for _, c := range []Checkpoint{Always, ExceptLast, Never} {
					for _, late := range []bool{false, true} {
						lists := g.lists
						if c != Never {
							lists = Checkpointed(g.lists, c, late)
						}
						testkit.Equal(t, Verify(lists, g.place, micro), nil, "%s, checkpoint %v", g.name, c)
					}
				}
				var text bytes.Buffer
				testkit.NoError(t, WriteCSV(&text, g.lists, g.place, micro))
				lists, place, m, err := ReadCSV(&text)
				if err != nil || m != micro || !slices.Equal(place.Device, g.place.Device) || !slices.EqualFunc(lists, g.lists, slices.Equal) {
					t.Errorf("%s: comes back from CSV as %v on %v, %d micro-batches, error %v", g.name, lists, place, m, err)
				}
			}
		}
	}
}

// The bubble rates of Table 5 of arXiv 2401.10241, from the times of its Table 9, to all
// printed digits; the schedules of its searches are no generators.
func TestZeroBubbleTable5(t *testing.T) {
	for _, row := range []struct {
		devices, micro   int
		f, i, w, comm    float64 // ms
		oneFOneB, h1, h2 float64
		chunks           int
		interleaved      float64
	}{
		{8, 24, 18.522, 18.086, 9.337, .601, .2431, .1585, .1083, 3, .1055},
		{8, 32, 18.513, 18.086, 9.331, .626, .1985, .1242, .0837, 3, .0818},
		{8, 24, 29.718, 29.444, 19.927, .527, .2347, .1323, .0698, 4, .0808},
		{8, 64, 29.935, 29.621, 19.388, .535, .1091, .0554, .0294, 4, .0320},
		{16, 48, 11.347, 11.248, 8.132, .377, .2552, .1397, .0672, 3, .1104},
		{16, 128, 11.325, 11.308, 8.109, .378, .1251, .0576, .0266, 3, .0445},
		{32, 96, 10.419, 10.207, 7.715, .408, .2646, .1421, .0641, 2, .1493},
		{32, 256, 10.402, 10.248, 7.698, .460, .1352, .0594, .0257, 2, .0624},
	} {
		d := Alike(Duration{F: row.f, I: row.i, W: row.w}, row.comm)
		work := float64(row.micro) * (row.f + row.i + row.w)
		rate := func(lists [][]Task, p Placement, d Durations) string {
			times := testkit.Must(Run(lists, p, row.micro, d))(t)
			return fmt.Sprintf("%.4f", (times.Longest()-work)/times.Longest())
		}
		oneFOneB := testkit.Must(Build(OneFOneB, row.devices, row.micro, Never, false))(t)
		for _, c := range []struct {
			name  string
			lists [][]Task
			want  float64
		}{
			{"1f1b", oneFOneB, row.oneFOneB},
			{"zb-h1", ZeroBubble(row.devices, row.micro, false), row.h1},
			{"zb-h2", ZeroBubble(row.devices, row.micro, true), row.h2},
		} {
			testkit.Equal(t, rate(c.lists, Straight(row.devices), d), fmt.Sprintf("%.4f", c.want), "%s, K=%d, M=%d: bubble rate", c.name, row.devices, row.micro)
		}
		// The printed column of interleaved 1f1b is a closed form with the number of layers of a
		// device as that of chunks, see InterleavedBubble.
		bubble := InterleavedBubble(row.devices, row.chunks, d.Stages[0], row.comm)
		testkit.Equal(t, fmt.Sprintf("%.4f", bubble/(work+bubble)), fmt.Sprintf("%.4f", row.interleaved), "interleaved, K=%d, M=%d: closed form", row.devices, row.micro)
	}
}

// PyTorch's own files of DualPipeV and of an interleaved schedule with split backward
// functions are schedules; the first is what the generator makes.
func TestPyTorchFiles(t *testing.T) {
	for _, c := range []struct {
		file           string
		devices, micro int
		lists          [][]Task
	}{
		{"dualpipev_4rank_10mb.csv", 4, 10, Checkpointed(dualPipeV(4, 2, 10), Never, false)},
		{"zb1p_2rank_2stagep_compute.csv", 2, 8, nil},
	} {
		f := testkit.Must(os.Open(filepath.Join("testdata", c.file)))(t)
		lists, place, micro, err := ReadCSV(f)
		f.Close()
		if err != nil || place.Devices != c.devices || micro != c.micro {
			t.Fatalf("%s: %d devices, %d micro-batches, error %v", c.file, place.Devices, micro, err)
		}
		testkit.Equal(t, Verify(lists, place, micro), nil, "%s", c.file)
		for d := range c.lists {
			testkit.EqualAll(t, c.lists[d], lists[d], "%s, device %d: %v, generated", c.file, d, lists[d])
		}
	}
}

// Without links, and with every task of a kind equally long, schedules have the bubbles
// and the memory that their papers state.
func TestClosedForms(t *testing.T) {
	const f, i, w = 3, 3.5, 2 // I + W are longer than F, and W no longer than I
	d := Alike(Duration{F: f, I: i, W: w}, 0)
	whole := []Footprint{{Residuals: 1, Weights: 0.25}}
	for devices := 1; devices <= 8; devices++ {
		for _, micro := range []int{2 * devices, 2*devices + 3, 4 * devices} {
			p := float64(devices)
			bubble := func(lists [][]Task, place Placement) float64 {
				times := testkit.Must(Run(lists, place, micro, d))(t)
				return times.Longest() - float64(micro*place.Stages()/devices)*(f+i+w)
			}
			same := func(name string, got, want float64) {
				if math.Abs(got-want) > 1e-9 {
					t.Errorf("%s, K=%d, M=%d: %v, want %v", name, devices, micro, got, want)
				}
			}
			oneFOneB, _ := Build(OneFOneB, devices, micro, Never, false)
			h1, h2 := Checkpointed(ZeroBubble(devices, micro, false), Never, false), Checkpointed(ZeroBubble(devices, micro, true), Never, false)
			same("bubble of 1f1b", bubble(oneFOneB, Straight(devices)), (p-1)*(f+i+w))
			same("bubble of zb-h1", bubble(h1, Straight(devices)), (p-1)*(f+i-w))
			same("bubble of zb-h2", bubble(h2, Straight(devices)), (p-1)*(f+i-2*w))
			same("memory of 1f1b", Peak(oneFOneB[0], whole), p)
			for stage := range devices {
				at := float64(stage)
				same("memory of zb-h1", Peak(h1[stage], whole), (p-at)+at*0.25)
				same("memory of zb-h2", Peak(h2[stage], whole), (2*p-1-2*at)+2*at*0.25)
			}
			if micro%devices == 0 {
				for chunks := 1; chunks <= 4; chunks++ {
					same(fmt.Sprintf("bubble of interleaved 1f1b, v = %d", chunks),
						bubble(interleaved(devices, chunks, micro), Loop(devices, chunks)), (p-1)*(f+i+w))
				}
			}
		}
	}
}

// V-shaped schedules in units of time that F, I and W all take: ZB-V has no bubble and the
// memory of 1f1b's first device; V-Half and V-Min about half and two thirds of 1f1b's
// bubble, with half and a third of its memory and a little more. Under -short up to five devices.
func TestSchedules(t *testing.T) {
	most := 8
	if testing.Short() {
		most = 5
	}
	for devices := 1; devices <= most; devices++ {
		micro := 4 * devices
		for _, c := range []struct {
			shape          Schedule
			bubble, memory float64 // of 1f1b's
		}{{ZBV, 0, 1}, {VHalf, 0.5, 0.5}, {VMin, 2. / 3, 1. / 3}} {
			lists := Checkpointed(c.shape.vees(devices, 2, micro), Never, false)
			times := testkit.Must(Run(lists, Vee(devices), micro, Alike(Duration{F: 1, I: 1, W: 1}, 0)))(t)
			held := 0.0
			for _, list := range lists {
				held = max(held, Peak(list, []Footprint{{Residuals: 1, Weights: 1}, {Residuals: 1, Weights: 1}}))
			}
			bubble := times.Longest() - float64(6*micro)
			if want := c.bubble * float64(6*(devices-1)); bubble > want+1 {
				t.Errorf("shape %d, K=%d: bubble of %v units, want about %v", c.shape, devices, bubble, want)
			}
			if want := c.memory * float64(2*devices); held > min(want+3, float64(2*devices)) {
				t.Errorf("shape %d, K=%d: %v chunks' activations, want about %v", c.shape, devices, held, want)
			}
			t.Logf("shape %d, K=%d: bubble %v, memory %v", c.shape, devices, bubble, held)
		}
	}
}

// What is no schedule is refused with the task and the reason.
func TestVerifyRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0F0,0B0\n1F0,1B0", ""},
		{"0F0,0F1,0B0,0B1\n1F0,1F1,1B1,1B0", "device 1: B1 is out of order: want each micro-batch once, in ascending order, and 0 is due"},
		{"0F0,0F1,0B0\n1F0,1F1,1B0,1B1", "device 0: B1 is missing, after F1: want a B, or an I and a W, of each of 2 micro-batches"},
		{"0F0,0B0,0F0\n1F0,1B0", "device 0: F0 is out of order"},
		{"0B0,0F0\n1F0,1B0", "device 0: B0 comes before its F"},
		{"0F0,0I0\n1F0,1B0", "device 0: W0 is missing, after I0: want a W of each I"},
		{"0F0,0W0,0I0\n1F0,1B0", "device 0: W0 has no I before it"},
		{"0F0,0F1,0I0,0I1,0W1,0W0\n1F0,1F1,1B0,1B1", "device 0: W1 is out of order"},
		{"0F0,0F1,0I0,0B1,0W0\n1F0,1F1,1B0,1B1", "device 0: B1 comes before W0"},
		{"0F0,2F0,2B0,0B0\n1F0,1B0", ""},
		{"2F0,0F0,2B0,0B0\n1F0,1B0", "device 0 waits for ever: 2F0 needs F0 of device 1, which cannot run before it"},
		{"2F0,0F0,2I0,2W0,0B0,3F0,3B0\n1F0,1B0", "device 0 waits for ever: 2F0 needs F0 of device 1"},
		{"0F0,2F0,2B0,0B0\n1F0,1B0,3F0,3B0", "device 0 waits for ever: 2B0 needs 3B0 of device 1"},
		{"0F0,2F0,2B0,0B0,0F1,0B1,2F1,2B1\n1F0,1B0,1F1", "device 1: B1 is missing, after F1"},
		{"0F0,2F0,2B0,0B0,0F1,2F1,0B1\n1F0,1B0,1F1,1B1", "device 0: 2B1 is missing, after 2F1"},
		{"0F0,2F0,2B0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1", "device 0: 2F1 is missing: want an F of each of 2 micro-batches"},
		{"0F0,0B0,0F1,0B1\n1F0,1B0,1I1", "device 1: I1 comes before its F"},
		{"0F0,2F0,0B0,2B0\n1F0,1B0", "device 0 waits for ever: 0B0 needs B0 of device 1"},
		{"0F0,0F1,0B0,0B1\n1F0,1I0,1W0,1F1,1I1,1W1", ""},
		{"0F0,0B0,0F1,0B1\n1F0,1F1,1I0,1W0,1I1,1W1", "device 0 waits for ever: B0 needs I0 of device 1, which cannot run before it"},
	} {
		lists, p, micro, err := ReadCSV(strings.NewReader(c.text))
		testkit.NoError(t, err)
		if err := Verify(lists, p, micro); c.want == "" {
			testkit.Equal(t, err, nil, "%q", c.text)
		} else {
			testkit.Fails(t, err, c.want)
		}
	}
	f, r, b := Task{Kind: Forward}, Task{Kind: Recompute}, Task{Kind: Backward}
	kept := f
	kept.Keep = true
	for want, list := range map[string][]Task{
		"B0 lacks residuals": {f, b},
		"R0 is out of place": {f, r},
		"R0 is not needed":   {kept, r, b},
		"of unknown kind":    {kept, b, {Kind: 9}},
		"is of chunk 1":      {kept, b, {Chunk: 1}},
		"of micro-batch 1":   {kept, b, {Micro: 1}},
	} {
		testkit.Fails(t, Verify([][]Task{list}, Straight(1), 1), want)
	}
	testkit.Fails(t, Verify(nil, Straight(1), 1))
	testkit.Fails(t, Verify(nil, Placement{}, 0), "0 devices: want 1 or more") // of an empty file
	testkit.Fails(t, Verify([][]Task{nil, nil}, Placement{Devices: 2, Device: []int{0}}, 1), "device 1 has no stage")
}

func TestReadCSVRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"0F0,x":                  `row 1, cell 2: "x": want a stage`,
		"0F0\n0B0":               `row 2, cell 1: "0B0" is of stage 0, which row 1 has already`,
		"1F0":                    "no task of stage 0",
		"0F":                     "has no micro-batch",
		"0F1234567":              "want a stage",
		"(0F0;0B0)OVERLAP":       "want a stage",
		"0F0,(0F0;y)OVERLAP_F_B": `cell 2: "y"`,
	} {
		_, _, _, err := ReadCSV(strings.NewReader(text))
		testkit.Fails(t, err, want)
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("0F0,0B0\n1F0,1B0")
	f.Add("0F0,2F0,,2I0,0I0,(0F1;2B0)OVERLAP_F_B\n1F0,1SEND_F0")
	f.Fuzz(func(t *testing.T, text string) {
		lists, p, micro, err := ReadCSV(strings.NewReader(text))
		if err == nil && Verify(lists, p, min(micro, 1000)) == nil {
			if _, err := Run(lists, p, micro, Alike(Duration{F: 1}, 0)); err != nil {
				t.Error(err)
			}
		}
	})
}

// Of stages that differ, each task takes what its own stage's do: for every generator, by the
// definition, a task begins when the one before it on its device is over and what it needs
// has come, and ends after its stage's time.
func TestRunOfUnevenStages(t *testing.T) {
	for _, name := range Names() {
		const devices, micro, comm = 3, 7, .25
		lists, p, err := Generate(name, devices, 0, micro)
		testkit.NoError(t, err)
		lists = Checkpointed(lists, ExceptLast, false)
		d := Durations{Comm: comm}
		for s := range p.Stages() {
			x := float64(1 + s*s%5)
			d.Stages = append(d.Stages, Duration{F: x, R: x + .5, I: 2 * x, W: x - .5})
		}
		times := testkit.Must(Run(lists, p, micro, d))(t)
		type key struct {
			back         bool
			stage, micro int
		}
		made := map[key]float64{}
		each := func(do func(device, i, stage int, t Task)) {
			for device, list := range lists {
				for i, task := range list {
					do(device, i, p.Chunks()[device][task.Chunk], task)
				}
			}
		}
		each(func(device, i, stage int, task Task) {
			if k := task.Kind; k == Forward || k == Backward || k == BackwardInput {
				made[key{k != Forward, stage, task.Micro}] = times.End[device][i]
			}
		})
		each(func(device, i, stage int, task Task) {
			want := 0.0
			if i > 0 {
				want = times.End[device][i-1]
			}
			from, back := stage-1, false
			if task.Kind == Backward || task.Kind == BackwardInput {
				from, back = stage+1, true
			} else if task.Kind != Forward {
				from = -1
			}
			if from >= 0 && from < p.Stages() {
				ready := made[key{back, from, task.Micro}]
				if p.Device[from] != device {
					ready += comm
				}
				want = max(want, ready)
			}
			took := map[Kind]float64{Forward: d.Stages[stage].F, Recompute: d.Stages[stage].R, BackwardInput: d.Stages[stage].I, BackwardWeights: d.Stages[stage].W,
				Backward: d.Stages[stage].I + d.Stages[stage].W}[task.Kind]
			if times.Start[device][i] != want || times.End[device][i] != want+took {
				t.Errorf("%s, device %d: %v from %v to %v, want %v to %v", name, device, task, times.Start[device][i], times.End[device][i], want, want+took)
			}
		})
		if _, err := Run(lists, p, micro, Durations{Stages: d.Stages[:2]}); err == nil {
			t.Errorf("%s: durations of 2 stages: no error", name)
		}
	}
}
