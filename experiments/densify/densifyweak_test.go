package densify

import (
	"strings"
	"testing"

	"gpipebench/lab/labtest"
)

// Every rank has as many examples, whatever their number and kind.
func TestWeakArguments(t *testing.T) {
	x := labtest.Loaded[*densifyWeak](t, Paper.Experiment("densify-weak").Load)
	for _, r := range x.Spec.runs() {
		line := strings.Join(x.Spec.arguments(x.Spec.Profiles["quick"], r), " ") + " "
		device := map[ranksAre]string{emulatedRanks: "emulated", realRanks: "host"}[r.kind]
		for _, want := range []string{
			map[int]string{1: "--batch 12 ", 2: "--batch 24 ", 4: "--batch 48 ", 8: "--batch 96 "}[r.ranks], "--device " + device, "--tied-gradients " + r.way.String(), "--tied=all",
		} {
			if want == "" || !strings.Contains(line, want) {
				t.Errorf("%+v: %s, want %s", r, line, want)
			}
		}
	}
}

func TestWeakSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("densify-weak"), [][3]string{
		{"emulated: [1, 2, 4, 8]", "emulated: [2, 4]", "want 1 first"},
		{"seq: 8, tied: all", "seq: 8", "tied: all"},
	})
}
