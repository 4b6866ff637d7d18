package schedulepage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
)

// The page's generators make the lists of package schedule, and its clock and memory come to
// the same.
func TestGeneratorsAreGos(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
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
	asked, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	generators, err := Files.ReadFile("schedules.js")
	if err != nil {
		t.Fatal(err)
	}
	script := string(generators) + `
console.log(JSON.stringify(` + string(asked) + `.map(c => {
	const s = generate(c.Name, c.K, c.M, c.V), times = runTimes(s.lists, s.place, c.K, {f: 2, b: 3, w: 1.5, comm: .25})
	return {Names: Object.keys(schedules), Lists: s.lists, Place: s.place, Longest: longest(times), Makespan: makespan(times), Peaks: s.lists.map(l => peak(memory(l, 1, .25)))}
})))`
	run := exec.Command(node, "-")
	run.Stdin = strings.NewReader(script)
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []struct {
		Names             []string
		Lists             [][]Task
		Place             []int
		Longest, Makespan float64
		Peaks             []float64
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(cases) {
		t.Fatalf("%d cases, %d results, %v", len(cases), len(got), err)
	}
	for i, c := range cases {
		chunks := 0
		if c.Name == "interleaved" {
			chunks = c.V
		}
		lists, p, err := schedule.Generate(c.Name, c.K, chunks, c.M)
		if err != nil {
			t.Fatal(err)
		}
		lists = schedule.Checkpointed(lists, schedule.Never, false)
		if !reflect.DeepEqual(got[i].Lists, Tasks(lists)) || !reflect.DeepEqual(got[i].Place, p.Device) || !reflect.DeepEqual(got[i].Names, schedule.Names()) {
			t.Fatalf("%+v: %v on %v, want %v on %v", c, got[i].Lists, got[i].Place, Tasks(lists), p.Device)
		}
		times, err := schedule.Run(lists, p, c.M, schedule.Alike(schedule.Duration{F: 2, I: 3, W: 1.5}, .25))
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(times.Longest()-got[i].Longest) > 1e-9 || math.Abs(times.Makespan()-got[i].Makespan) > 1e-9 {
			t.Errorf("%+v: %v and %v, want %v and %v", c, got[i].Longest, got[i].Makespan, times.Longest(), times.Makespan())
		}
		for d, list := range lists {
			of := make([]schedule.Footprint, len(p.Chunks()[d]))
			for j := range of {
				of[j] = schedule.Footprint{Residuals: 1, Weights: .25}
			}
			if want := schedule.Peak(list, of); math.Abs(want-got[i].Peaks[d]) > 1e-9 {
				t.Errorf("%+v, device %d: peak %v, want %v", c, d, got[i].Peaks[d], want)
			}
		}
	}
}

// probe moves every control of the page, and reports what is wrong: errors, a page wider
// than its window, pictures that stay as they are or are empty, files that are asked for.
const probe = `<script>
const wrong = [], $ = id => document.getElementById(id)
addEventListener("error", e => wrong.push(e.message))
const blank = document.createElement("canvas")
function painted(id) {
	const c = $(id)
	blank.width = c.width
	blank.height = c.height
	const seen = c.toDataURL()
	return seen === blank.toDataURL() ? "" : seen
}
const looks = () => painted("timeline") + "," + painted("memory")
try {
	for (const name of Object.keys(schedules)) {
		$("schedule").value = name
		$("schedule").onchange()
		if (!/is idle/.test($("says").textContent)) wrong.push(name + ": " + $("says").textContent)
		if (!painted("timeline") || !painted("memory")) wrong.push(name + ": nothing is drawn")
	}
	for (const [id] of knobs) {
		$("schedule").value = state.schedule = id === "v" ? "interleaved" : "zb-h1"
		draw()
		const before = looks(), [range] = inputs[id]
		range.value = Number(range.value) > Number(range.max) / 2 ? Number(range.max) / 4 : Number(range.max) * .75
		range.oninput()
		if (looks() === before) wrong.push(id + ": the picture stays as it is")
	}
	$("schedule").value = "dualpipe-v"
	$("schedule").onchange()
	state.m = 2
	draw()
	if (!/or more/.test($("says").textContent)) wrong.push("too few micro-batches: " + $("says").textContent)
	if (document.scrollingElement.scrollWidth > innerWidth) wrong.push("wider than the window: " + document.scrollingElement.scrollWidth)
	wrong.push(...performance.getEntriesByType("resource").map(r => r.name))
} catch (e) { wrong.push(String(e)) }
parent.postMessage(wrong.join("; ") || "all is well", "*")
</script>`

var checked = regexp.MustCompile(`data-checked="([^"]*)"`)

// In a browser the page is usable as wide as a phone and a desk, in light and dark.
func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			browser = at
			break
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium here")
	}
	dir := t.TempDir()
	var page bytes.Buffer
	if err := Write(&page, Given{Schedule: "1f1b", K: 4, M: 8, V: 2, F: 3, B: 3, W: 2, Comm: .5, Whole: 1, Weights: .4, Limit: 3}); err != nil {
		t.Fatal(err)
	}
	page.WriteString(probe)
	frames := `<!DOCTYPE html><meta name="color-scheme" content="light dark"><body><script>
const seen = {}
onmessage = m => {
	seen[[...document.querySelectorAll("iframe")].find(f => f.contentWindow === m.source).name] = m.data
	document.documentElement.dataset.checked = Object.entries(seen).map(([at, says]) => at + ": " + says).sort().join("; ")
}
</script>`
	for _, width := range []int{400, 1280} {
		frames += fmt.Sprintf(`<iframe name="%d" src="page.html" width="%[1]d" height="1400"></iframe>`, width)
	}
	for name, text := range map[string]string{"page.html": page.String(), "frames.html": frames} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, scheme := range []string{"0", "1"} { // dark and light
		run := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+filepath.Join(dir, "profile"),
			"--window-size=1920,1500", "--blink-settings=preferredColorScheme="+scheme, "--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom",
			"file://"+filepath.Join(dir, "frames.html"))
		var log bytes.Buffer
		run.Stderr = &log
		out, err := run.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, log.String())
		}
		got := checked.FindSubmatch(out)
		if got == nil || string(got[1]) != "1280: all is well; 400: all is well" || strings.Contains(log.String(), "CONSOLE") {
			t.Errorf("scheme %s: %s\n%s", scheme, got, log.String())
		}
	}
}
