package experiments

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// endless is what a device gives that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// frugal runs f and reports if it takes more than some memory, or long.
func frugal(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<29 {
		t.Errorf("it took %d MiB", took>>20)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// What never ends is refused in one line.
func TestEndlessInput(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("no /dev/zero here")
	}
	dir := t.TempDir()
	recordsDir := filepath.Join(dir, "table2.jsonl")
	long := filepath.Join(dir, "long.jsonl")
	testkit.NoError(t, os.Symlink("/dev/zero", recordsDir))
	testkit.NoError(t, os.WriteFile(long, nil, 0o600))
	testkit.NoError(t, os.Truncate(long, records.MaxRecord+1)) // one line, of holes
	for name, c := range map[string]struct {
		run  func() error
		want string
	}{
		"a spec":       {func() error { _, err := lab.ReadSpec("/dev/zero", IDs()); return err }, "/dev/zero: is a device, want a spec of up to 65536 bytes"},
		"records":      {func() error { _, err := records.Load(recordsDir, "table2"); return err }, recordsDir + ": is a device, want records of up to 256 MiB"},
		"own records":  {func() error { _, err := records.Open(recordsDir, records.Key{}, false); return err }, recordsDir + ": is a device, want records of up to 256 MiB"},
		"a long line":  {func() error { _, err := records.Load(long, "table2"); return err }, long + ":1: line too long, want a record of up to 8 MiB"},
		"own long one": {func() error { _, err := records.Open(long, records.Key{}, false); return err }, long + ":1: line too long, want a record of up to 8 MiB"},
		"a round":      {func() error { return Round(context.Background(), endless{}, io.Discard) }, "no round is asked for on standard input (line too long): it is reproduce that starts this"},
		"its records":  {func() error { return timed.AdoptAll(endless{}, nil, records.New(records.Key{})) }, "line too long"},
	} {
		t.Run(name, func(t *testing.T) {
			frugal(t, func() {
				testkit.Equal(t, fmt.Sprint(c.run()), c.want)
			})
		})
	}
}

// Anchors of YAML that stand for billions of values, and mappings of as many keys
// as a spec has room for, are refused soon.
func TestYAMLBombs(t *testing.T) {
	bomb := "experiment: table2\ntitle: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i, field := range []string{"k", "m", "base", "batch", "paper", "profiles", "schedule", "lr"} {
		bomb += field + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat("*a"+string(rune('0'+i))+", ", 9) + "]\n"
	}
	keys := "experiment: table2\n"
	for i := 0; len(keys) < int(lab.SpecKind.Bytes)-20; i++ {
		keys += string(rune('a'+i%26)) + strings.Repeat("a", i/26%7) + string(rune(0x100+i)) + ": 1\n"
	}
	for name, text := range map[string]string{"anchors": bomb, "keys": keys, "brackets": "experiment: table2\nk: " + strings.Repeat("[", 50_000), "items": "experiment: table2\nk: [" + strings.Repeat("[],", 20_000) + "]"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "spec.yaml")
			testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			frugal(t, func() {
				spec, err := lab.ReadSpec(file, IDs())
				if err == nil {
					_, err = Load(spec.Experiment, spec)
				}
				testkit.FailsFirst(t, err, file)
			})
		})
	}
}

// A file of damaged lines is read in time that grows with their number, and only
// the first are named.
func TestManyDamagedLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "e.jsonl")
	testkit.NoError(t, os.WriteFile(name, bytes.Repeat([]byte("x\n"), 100_000), 0o600))
	frugal(t, func() {
		l := testkit.Must(records.Open(name, records.Key{}, false))(t)
		l.Close()
		if !strings.HasPrefix(l.Damaged, name+":1, ") || len(l.Damaged) > 10*len(name)+100 {
			t.Errorf("%.2000s", l.Damaged)
		}
	})
}
