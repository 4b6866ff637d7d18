//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpipebench/cmd/gpipebench/faultstest"
	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/testkit"
)

// A disk that becomes full or read-only in the middle of a training, or a directory that
// vanishes, is a line: the training goes on to its end, the older snapshots stay whole, and
// the exit status says that some failed. When the disk is as before, it goes on from them.
func TestDisksThatFail(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	s := survivor{training: strings.Join(tiny, " ") + " --groups=2 --ema=0.9 --steps=1000"}
	want := finished(t, command(t.TempDir(), s.line("-m 1", "")))
	remount := func(flags uintptr) func(disk, dir string) error {
		return func(disk, _ string) error {
			return syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|flags, "size=16m")
		}
	}
	for _, c := range []struct {
		name, says    string
		fail, restore func(disk, dir string) error
	}{
		{"full", "no space left on device", func(disk, _ string) error { fill(t, disk); return nil }, func(disk, _ string) error { return os.Remove(filepath.Join(disk, filler)) }},
		{"read-only", "read-only file system", remount(syscall.MS_RDONLY), remount(0)},
		{"vanished", "no such file or directory", func(_, dir string) error { return os.Rename(dir, dir+"-moved") }, func(_, dir string) error { return os.Rename(dir+"-moved", dir) }},
	} {
		for _, way := range []string{"-k 2 -m 2", "2 processes: --replicas 2 -m 1"} {
			t.Run(c.name+", "+way, func(t *testing.T) {
				t.Parallel()
				disk, temporary := t.TempDir(), t.TempDir()
				if !faultstest.Mounted(t, disk, "size=16m") {
					t.Skip("a disk that fails must be mounted")
				}
				dir := filepath.Join(disk, "snapshots")
				flags := " --snapshot-every 100 --snapshot-dir " + dir
				cmd := command(temporary, s.line(way, flags))
				var stdout bytes.Buffer
				cmd.Stdout = &stdout
				r := start(t, cmd)
				first := 0
				r.until("a snapshot and a disk that fails", func() bool {
					if first == 0 {
						if steps, err := snapshot.Steps(dir); err == nil && len(steps) > 0 {
							first = steps[len(steps)-1]
						}
						return false
					}
					err := c.fail(disk, dir)                          // early: the training has many snapshots to write yet
					if err != nil && !errors.Is(err, syscall.EBUSY) { // while a file is being written
						t.Fatal(err)
					}
					return err == nil
				})
				until(t, "end", r.over)
				said := strings.TrimSuffix(r.said.String(), "\n")
				last := said[strings.LastIndex(said, "\n")+1:]
				if status := r.status(); status != 1 || !strings.HasPrefix(last, "gpipebench: ") || !strings.Contains(last, " snapshots failed: ") || !strings.HasSuffix(last, c.says) ||
					strings.Count(said, "no snapshot after step ") != 1 || strings.Count(said, "the training goes on, and older snapshots stay") != 1 {
					t.Errorf("status %d after\n%s", status, said)
				}
				var got outcome
				if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || got.said() != want.said() {
					t.Errorf("%v, another outcome: %s, want %s", err, got.Weights, want.Weights)
				}
				if err := c.restore(disk, dir); err != nil {
					t.Fatal(err)
				}
				if newest, damaged, err := snapshot.Newest(dir); err != nil || len(damaged) > 0 || newest == nil || newest.Step < first {
					t.Errorf("%+v, %v, %v: want the snapshot of step %d or later", newest, damaged, err, first)
				}
				if got = finished(t, command(temporary, s.line("-m 1", flags+" --resume"))); got.ResumedAt < first || got.said() != want.said() {
					t.Errorf("goes on after step %d with %s, want %d or later and %s", got.ResumedAt, got.Weights, first, want.Weights)
				}
				onlySnapshots(t, dir)
				nothingLeft(t, temporary)
			})
		}
	}
}

// A disk that is read-only from the beginning is refused before anything is computed.
func TestReadOnlyDisk(t *testing.T) {
	disk := t.TempDir()
	if !faultstest.Mounted(t, disk, "size=1m,ro") {
		t.Skip("a read-only disk must be mounted")
	}
	for _, dir := range []string{disk, filepath.Join(disk, "snapshots")} {
		status, out, said := execute(t, append([]string{"train", "--steps=100000000", "--snapshot-dir=" + dir}, tiny...)...)
		if status != 1 || out != "" || strings.Count(said, "\n") != 1 || !strings.Contains(said, "read-only file system") {
			t.Errorf("status %d, %q", status, said)
		}
	}
}

// filler is the name of a file that fills a disk.
const filler = "filler"

// fill fills a disk.
func fill(t *testing.T, disk string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, filler))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v, want a full disk", err)
	}
}
