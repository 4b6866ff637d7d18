package experiments

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const killedDir = "GPIPEBENCH_TEST_KILLED_DIR"

// TestKilledChild is the process that TestKilledRuns kills.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("runs only as the child of another test")
	}
	if err := killedRun(dir).Run(context.Background(), childProgress{}, func(Experiment, *Report) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func killedRun(dir string) Reproducing {
	return Reproducing{Profile: "smoke", Only: []string{"breakdown"}, Out: dir}
}

// childProgress tells the parent of every step: that measuring has begun, and
// each sample.
type childProgress struct{ Silent }

func (childProgress) Begin(string, int) { fmt.Println("step") }
func (childProgress) Advance(string)    { fmt.Println("step") }

// A run that is killed ten times at random moments and then finished has all its
// samples, and none twice.
func TestKilledRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	dir := t.TempDir()
	records := filepath.Join(dir, "records", "breakdown.jsonl")
	size := func() int64 {
		st, err := os.Stat(records)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	grew := 0
	for range 10 {
		child := exec.Command(os.Args[0], "-test.run=^TestKilledChild$")
		child.Env = append(os.Environ(), killedDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		before := size()
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		steps := 1 + random.IntN(3)
		for lines := bufio.NewScanner(out); steps > 0 && lines.Scan(); {
			if lines.Text() == "step" {
				steps--
			}
		}
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
		_ = child.Process.Kill() // it may have ended
		_ = child.Wait()
		if size() > before {
			grew++
		}
	}
	if t.Logf("%d of 10 runs added samples before they were killed", grew); grew < 2 {
		t.Error("too few for the test to mean something")
	}

	p := &said{}
	var complete *Report
	if err := killedRun(dir).Run(context.Background(), p, func(_ Experiment, r *Report) error { complete = r; return nil }); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(records)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for line := range bytes.Lines(text) {
		r, err := decodeRecord(bytes.TrimSpace(line))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if r.Sample != "" {
			times[r.Sample]++
		}
	}
	for name, n := range times {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	// As many as of a run that nobody disturbs.
	whole := &said{}
	log := NewLog(Key{})
	e, err := Load("breakdown")
	if err != nil {
		t.Fatal(err)
	}
	log.Key = e.Key("smoke")
	if err := e.Measure(context.Background(), log, whole); err != nil {
		t.Fatal(err)
	}
	for _, name := range log.names {
		if times[name] == 0 {
			t.Errorf("no %s", name)
		}
	}
	if len(times) != len(log.names) || complete == nil {
		t.Errorf("%d samples, want %d", len(times), len(log.names))
	}
}
