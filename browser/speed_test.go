package browser

import (
	"flag"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

var speed = flag.Bool("speed", false, "measure steps in the page beside native ones: make playground-speed")

// A step in Chromium and the same step of the same portable kernels natively, in turns: prints both,
// and the median of the rounds' ratios with their span. It asserts nothing.
func TestSpeed(t *testing.T) {
	if !*speed {
		t.Skip("make playground-speed measures")
	}
	page, address := startChromium(t)(t), serve(t)
	must(t, page.open(address))
	must(t, page.eval(playgroundScript+"; 0", nil))
	const rounds, steps = 6, 10
	for _, net := range []string{"digits", "lm"} {
		var ratios []float64
		for range rounds {
			out, err := exec.Command("../bin/playground.test", "-test.run", "^$", "-test.bench", "Step/"+net+"$", "-test.benchtime", fmt.Sprint(steps, "x")).Output()
			must(t, err)
			found := regexp.MustCompile(`([0-9.]+) ms/step`).FindSubmatch(out)
			if found == nil {
				t.Fatalf("no time in %s", out)
			}
			native, err := strconv.ParseFloat(string(found[1]), 64)
			must(t, err)
			var seconds float64
			must(t, page.eval(fmt.Sprintf(`new Promise((done, failed) => trainer.call("train", {net: %q, k: 4, m: 4, schedule: "gpipe", checkpoint: "always", cut: [], seed: 1, steps: %d}, (kind, m) => kind === "trained" && done(m.seconds)).catch(failed))`, net, steps), &seconds))
			inPage := 1e3 * seconds / steps
			t.Logf("%s: %.1f ms in the page, %.1f natively with portable kernels, ratio %.2f", net, inPage, native, inPage/native)
			ratios = append(ratios, inPage/native)
		}
		slices.Sort(ratios)
		t.Logf("%s: ratio %.2f, from %.2f to %.2f in %d rounds", net, (ratios[rounds/2-1]+ratios[rounds/2])/2, ratios[0], ratios[rounds-1], rounds)
	}
}
