package gpipe

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/models/transformer"
)

// TestResidentMemory: the process's resident memory stays within 10% + 64 MiB
// of the sum of the plans. It runs in a process of its own.
func TestResidentMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if os.Getenv("GPIPEBENCH_RESIDENT") == "" {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe, "-test.run=TestResidentMemory$", "-test.v")
		cmd.Env = append(os.Environ(), "GPIPEBENCH_RESIDENT=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "planned") {
				t.Log(strings.TrimSpace(line))
			}
		}
		return
	}
	l := lm{model: transformer.Config{Layers: 6, Dim: 256, FeedForward: 1024, Heads: 8, Vocab: 8192, SeqLen: 64}, batch: 16}
	p := l.pipeline(t)
	p.Partitions, p.MicroBatches, p.Checkpoint = 3, 2, schedule.Never
	p.Devices = []Device{{Threads: 2}}
	tr, err := p.Open(InputOf(l.data(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for i := range 3 {
		if _, err := tr.Step(t.Context(), l.data(i)); err != nil {
			t.Fatal(err)
		}
	}
	var planned int64
	for _, plan := range tr.Plans() {
		planned += plan.Peak
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var resident int64
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &resident); err != nil {
				t.Fatal(err)
			}
			resident <<= 10
		}
	}
	t.Logf("planned %d bytes, resident at most %d", planned, resident)
	if limit := planned + planned/10 + 64<<20; resident > limit || resident < planned {
		t.Errorf("resident %d bytes, planned %d: want at most %d, and no less than planned", resident, planned, limit)
	}
}
