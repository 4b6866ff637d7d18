package train_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// What was found in files, and settings that have less effect than they seem to have,
// are said before the first step; ordinary trainings say nothing.
func TestNotices(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text.txt")
	testkit.NoError(t, os.WriteFile(name, []byte(strings.Repeat("0123456789", 40)), 0o600))
	cores := runtime.GOMAXPROCS(0)
	many := cores + 1
	for _, c := range []struct {
		change func(*train.Training)
		want   []string
	}{
		{func(tr *train.Training) { tr.Setup.Device = gpipe.Emulated }, nil},
		{func(tr *train.Training) { tr.Setup.Partitions, tr.Setup.Threads = 1, cores }, nil},
		{func(tr *train.Training) { tr.Setup.Partitions, tr.Setup.Threads = 1, many }, []string{fmt.Sprintf("%d threads for a device on %d cores: more threads than cores make a step slower; results are the same", many, cores)}},
		{func(tr *train.Training) { tr.Setup.Partitions, tr.Setup.Threads = 4, cores }, []string{"4 host devices of "}},
		{func(tr *train.Training) {
			tr.Setup.Device, tr.Data, tr.Batch = gpipe.Emulated, "text:"+name, 800
		}, []string{"text:" + name + ": 360 B to train on, 40 B held out", "a mini-batch has 44 examples and not 800: text:" + name + " has no more to train on"}},
	} {
		var said []string
		tr := traintest.TinyTraining()
		tr.Notice = func(line string) { said = append(said, line) }
		c.change(&tr)
		r := testkit.Must(tr.Run(t.Context(), nil))(t)
		if !slices.EqualFunc(said, c.want, strings.HasPrefix) {
			t.Errorf("said %q, want %q", said, c.want)
		}
		if r.StepSeconds <= 0 || r.ExamplesPerSecond <= 0 {
			t.Errorf("a step takes %v s, %v examples/s: want the time of the largest mini-batch", r.StepSeconds, r.ExamplesPerSecond)
		}
	}
}
