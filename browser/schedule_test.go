package browser

import (
	_ "embed"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed schedule.js
var scheduleScript string

// The page that gpipebench schedule writes is usable as wide as a phone and a desk, in light and dark.
func TestChromiumSchedule(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schedule.html")
	if out, err := exec.Command("../bin/gpipebench", strings.Fields("schedule --schedule 1f1b -k 4 -m 8 --times f=3,b=3,w=2,comm=0.5 --activations f=1,b=0.6,w=0.4 --memory-limit 3 --html "+file)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	page := startChromium(t)(t)
	must(t, page.open("file://"+file))
	must(t, page.eval(scheduleScript+"; 0", nil))
	for _, width := range []int{400, 1280} {
		for _, dark := range []bool{false, true} {
			must(t, page.resize(width, 1400, dark))
			var wrong []string
			must(t, page.eval("new Promise(r => requestAnimationFrame(() => r(moveAll())))", &wrong))
			if len(wrong) > 0 {
				t.Errorf("%d wide, dark %v: %q", width, dark, wrong)
			}
		}
	}
	if said := page.console(); len(said) > 0 {
		t.Errorf("on the console: %q", said)
	}
}
