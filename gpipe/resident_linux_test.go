package gpipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// TestResidentMemory: a process's resident memory stays within 10% + 64 MiB of the
// sum of the plans. It runs in a separate process.
func TestResidentMemory(t *testing.T) {
	resident(t, "TestResidentMemory", func() (plans []*Plan) {
		l := lm{model: transformer.Config{Layers: 6, Dim: 256, FeedForward: 1024, Heads: 8, Vocab: 8192, SeqLen: 64}, batch: 16}
		p := l.pipeline(t)
		p.Partitions, p.MicroBatches, p.Checkpoint = 3, 2, schedule.Never
		p.Devices = []Device{{Threads: 2}}
		tr := opened(t, p, InputOf(l.data(0)))
		for i := range 3 {
			stepped(t, tr, l.data(i))
		}
		return tr.Plans()
	})
}

// TestResidentMemoryOfDecoding: the same for a process that translates, whose plan
// is mostly logits.
func TestResidentMemoryOfDecoding(t *testing.T) {
	resident(t, "TestResidentMemoryOfDecoding", func() (plans []*Plan) {
		m := translation{batch: 32, model: transformer.TranslationConfig{
			Layers: 1, Dim: 32, FeedForward: 64, Heads: 2, SourceVocab: 32000, SourceLen: 48, TargetLen: 48, Tie: transformer.TieAll,
		}}
		b := m.data(0)
		p := m.pipeline(t)
		p.Partitions, p.Devices = 2, []Device{{Threads: 2}}
		p.Predicting = InputOf(b)
		tr := opened(t, p, Input{})
		if _, err := (transformer.Decoding{MaxLen: 48, Pad: 0, Begin: 1, End: 2}).Decode(
			t.Context(), atMost(8, tr.PredictEach), b.Inputs[0], b.Inputs[1]); !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		return tr.Plans()
	})
}

var errEnough = errors.New("enough")

// atMost ends a search after n predictions.
func atMost(n int, predict transformer.Predictor) transformer.Predictor {
	return func(ctx context.Context, each func(int, []nn.Tensor) error, inputs ...nn.Tensor) error {
		if n--; n < 0 {
			return errEnough
		}
		return predict(ctx, each, inputs...)
	}
}

// resident runs a test in a separate process and compares its resident memory with
// the plans.
func resident(t *testing.T, test string, run func() []*Plan) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if os.Getenv("GPIPEBENCH_RESIDENT") == "" {
		exe := must(os.Executable())(t)
		cmd := exec.Command(exe, "-test.run="+test+"$", "-test.v")
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
	var planned int64
	for _, plan := range run() {
		planned += plan.Peak
	}
	status := must(os.ReadFile("/proc/self/status"))(t)
	var resident int64
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			must(fmt.Sscan(rest, &resident))(t)
			resident <<= 10
		}
	}
	t.Logf("planned %d bytes, resident at most %d", planned, resident)
	if limit := planned + planned/10 + 64<<20; resident > limit || resident < planned {
		t.Errorf("resident %d bytes, planned %d: want at most %d, and no less than planned", resident, planned, limit)
	}
}
