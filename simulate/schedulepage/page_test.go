package schedulepage

import (
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
)

// The page's generators make the lists of package schedule, and its clock and memory come to
// the same.
func TestGeneratorsAreGos(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node, which runs the page's script without a browser, is not installed")
	}
	type one struct {
		Name    string
		K, M, V int
	}
	var cases []one
	for _, name := range schedule.Names() {
		for _, c := range [][2]int{{1, 1}, {1, 3}, {2, 1}, {2, 5}, {3, 7}, {4, 3}, {4, 8}, {4, 13}, {5, 11}} {
			if _, _, err := schedule.Generate(name, c[0], 0, c[1]); err != nil {
				continue // too few micro-batches
			}
			cases = append(cases, one{name, c[0], c[1], 2})
			if name == "interleaved" {
				cases = append(cases, one{name, c[0], c[1], 3}, one{name, c[0], c[1], 1})
			}
		}
	}
	asked := testkit.Must(json.Marshal(cases))(t)
	generators := testkit.Must(Files.ReadFile("schedules.js"))(t)
	script := string(generators) + `
console.log(JSON.stringify(` + string(asked) + `.map(c => {
	const s = generate(c.Name, c.K, c.M, c.V), times = runTimes(s.lists, s.place, c.K, {f: 2, b: 3, w: 1.5, comm: .25})
	return {Names: Object.keys(schedules), Lists: s.lists, Place: s.place, Longest: longest(times), Makespan: makespan(times), Peaks: s.lists.map(l => peak(memory(l, 1, .25)))}
})))`
	run := exec.Command(node, "-")
	run.Stdin = strings.NewReader(script)
	out := testkit.Must(run.Output())(t)
	var got []struct {
		Names             []string
		Lists             [][]Task
		Place             []int
		Longest, Makespan float64
		Peaks             []float64
	}
	testkit.NoError(t, json.Unmarshal(out, &got))
	testkit.Equal(t, len(got), len(cases), "results")
	for i, c := range cases {
		chunks := 0
		if c.Name == "interleaved" {
			chunks = c.V
		}
		lists, p, err := schedule.Generate(c.Name, c.K, chunks, c.M)
		testkit.NoError(t, err)
		lists = schedule.Checkpointed(lists, schedule.Never, false)
		if !reflect.DeepEqual(got[i].Lists, Tasks(lists)) || !reflect.DeepEqual(got[i].Place, p.Device) || !reflect.DeepEqual(got[i].Names, schedule.Names()) {
			t.Fatalf("%+v: %v on %v, want %v on %v", c, got[i].Lists, got[i].Place, Tasks(lists), p.Device)
		}
		times := testkit.Must(schedule.Run(lists, p, c.M, schedule.Alike(schedule.Duration{F: 2, I: 3, W: 1.5}, .25)))(t)
		testkit.Near(t, got[i].Longest, times.Longest(), 1e-9, "%+v: longest device", c)
		testkit.Near(t, got[i].Makespan, times.Makespan(), 1e-9, "%+v: makespan", c)
		for d, list := range lists {
			of := make([]schedule.Footprint, len(p.Chunks()[d]))
			for j := range of {
				of[j] = schedule.Footprint{Residuals: 1, Weights: .25}
			}
			testkit.Near(t, got[i].Peaks[d], schedule.Peak(list, of), 1e-9, "%+v, device %d: peak", c, d)
		}
	}
}

// A field of a slider shows the number in effect once a reader has left it, not one that was typed and refused.
func TestFieldsShowWhatCounts(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	run := exec.Command(node, "-")
	run.Stdin = strings.NewReader("document = {createElement: () => ({append() {}, setAttribute() {}})}\n" + string(testkit.Must(Files.ReadFile("pictures.js"))(t)) + `
let is = 4
const [, number] = slider(document.createElement(), {least: 1, most: 8, step: 1, value: is, set: x => { is = x }})
console.log(["1", "12", "", "2.5", "7"].map(typed => {
	number.value = typed
	number.oninput()
	number.onchange?.()
	return number.value + " " + is
}).join())`)
	testkit.Equal(t, string(testkit.Must(run.Output())(t)), "1 1,1 1,1 1,1 1,7 7\n")
}
