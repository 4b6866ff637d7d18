package browser

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

//go:embed playground.js
var playgroundScript string

// settings are three of each network; the tests of package playground train the same natively.
var settings = map[string][]map[string]any{}

func init() {
	for _, net := range []string{"digits", "lm"} {
		settings[net] = []map[string]any{
			{"net": net, "k": 4, "m": 4, "schedule": "gpipe", "checkpoint": "always", "seed": 1},
			{"net": net, "k": 2, "m": 8, "schedule": "1f1b", "checkpoint": "never", "seed": 1},
			{"net": net, "k": 3, "m": 2, "schedule": "zb-h1", "checkpoint": "never", "seed": 2},
		}
	}
}

// published are the hashes of trainings natively, by function.
func published(t *testing.T) map[string]string {
	raw, err := os.ReadFile("../playground/testdata/published.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		function, hash, _ := strings.Cut(strings.TrimSpace(line), "\t")
		all[function] = hash
	}
	return all
}

// serve runs gpipebench playground, and returns its address.
func serve(t *testing.T) string {
	program, err := filepath.Abs("../bin/gpipebench")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "playground", "--open=false")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("%v: want the program that make playground builds", err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("gpipebench playground, interrupted: %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// ended is a row of the page's trainings.
type ended struct {
	Function, SHA256, Says, Verdict, Command string
	Trace                                    int
}

// checkNet trains a network at three settings, the first from the address, and compares with what a
// native build ends with.
func checkNet(t *testing.T, page tab, address, name, net string) {
	all, first := settings[net], settings[net][0]
	if err := page.open(fmt.Sprintf("%s#net=%s&k=%v&m=%v&run=1", address, net, first["k"], first["m"])); err != nil {
		t.Fatal(err)
	}
	must(t, page.eval(playgroundScript+"; 0", nil))
	native := published(t)
	for i, of := range all {
		expression := "test.finished(1)"
		if i > 0 {
			raw, err := json.Marshal(of)
			must(t, err)
			expression = "test.train(" + string(raw) + ")"
		}
		var got ended
		begin := time.Now()
		must(t, page.eval(expression, &got))
		t.Logf("%v: %s, %v: %s", of, got.SHA256, time.Since(begin).Round(time.Second), got.Verdict)
		if want := native[got.Function]; got.SHA256 != want || want == "" {
			t.Errorf("%v: %s ends with %q, natively with %q", of, got.Function, got.SHA256, want)
		}
		if strings.Contains(got.Says, "differs") || got.Trace < 1000 || !strings.Contains(got.Command, fmt.Sprint(" -k ", of["k"], " -m ", of["m"])) {
			t.Errorf("%v: %+v", of, got)
		}
		if i == 0 && got.Says != "the same as README's" {
			t.Errorf("%v: the page says %q", of, got.Says)
		}
	}
	look(t, page, name+"-"+net)
}

// checkPage moves every slider, looks at the page, and does what a reader may do besides training.
func checkPage(t *testing.T, page tab, address, name string) {
	must(t, page.open(address))
	must(t, page.eval(playgroundScript+"; 0", nil))
	var picture, ready float64
	must(t, page.eval(`performance.getEntriesByName("first picture")[0].startTime`, &picture))
	must(t, page.eval(`test.wait("the engine", () => planned).then(() => performance.now())`, &ready))
	t.Logf("first picture after %.0f ms, planned after %.0f", picture, ready)
	if picture > ready {
		t.Error("the first picture waits for the engine")
	}
	var isolated bool
	if must(t, page.eval("crossOriginIsolated", &isolated)); !isolated {
		t.Error("the page is not isolated: its clock is coarse")
	}
	must(t, page.eval(`scrollTo(0, document.body.scrollHeight), $("figure2").scrollIntoView(), 0`, nil))
	must(t, page.eval(`new Promise(r => setTimeout(r, 300)).then(() => $("table1").scrollIntoView())`, nil))
	var sliders struct {
		Moved int
		Wrong []string
	}
	must(t, page.eval("test.sliders()", &sliders))
	if sliders.Moved != 14 || len(sliders.Wrong) > 0 {
		t.Errorf("%d sliders, want 14; wrong: %q", sliders.Moved, sliders.Wrong)
	}
	look(t, page, name)
	var stopped, impossible string
	must(t, page.eval("test.stop()", &stopped))
	must(t, page.eval("test.impossible()", &impossible))
	if stopped != "Stopped." || !strings.HasPrefix(impossible, "Not possible: ") || strings.Contains(impossible, "gpipebench ") || strings.Contains(impossible, "; a ") {
		t.Errorf("stopped: %q; impossible settings: %q", stopped, impossible)
	}
	if said := page.console(); len(said) > 0 {
		t.Errorf("on the console: %q", said)
	}
	var refused bool // which is said on the console
	if must(t, page.eval("test.policy()", &refused)); !refused {
		t.Error("a script from elsewhere runs: the page has no policy")
	}
}

// look looks at the page as wide as a phone and a desk, light and dark.
func look(t *testing.T, page tab, name string) {
	for _, width := range []int{390, 1280} {
		for _, dark := range []bool{false, true} {
			must(t, page.resize(width, 900, dark))
			must(t, page.eval("scrollTo(0, 0), 0", nil))
			var wrong []string
			must(t, page.eval("new Promise(r => setTimeout(() => r(test.looks()), 200))", &wrong))
			if len(wrong) > 0 {
				t.Errorf("%d wide, dark %v: %q", width, dark, wrong)
			}
			shoot(t, page, fmt.Sprintf("%s-%d-dark-%v", name, width, dark))
		}
	}
}

// checkAll is the whole test in one browser, whose tabs are opened by a function. Both networks
// train at once, each in a worker.
func checkAll(t *testing.T, name string, open func(t *testing.T) tab) {
	address := serve(t)
	t.Run("page", func(t *testing.T) { checkPage(t, open(t), address, name) })
	t.Run("networks", func(t *testing.T) {
		for net := range settings {
			t.Run(net, func(t *testing.T) {
				t.Parallel()
				page := open(t)
				checkNet(t, page, address, name, net)
				if said := page.console(); len(said) > 0 {
					t.Errorf("on the console: %q", said)
				}
			})
		}
	})
}
