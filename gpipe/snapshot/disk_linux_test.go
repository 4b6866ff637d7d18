package snapshot

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A full disk leaves the snapshots that are there, and nothing else.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=300k"); err != nil {
		t.Skip("no small file system to fill: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	tr, data := training(t, plainly)
	fits := 0
	var failure error
	for failure == nil && fits < 100 {
		step(t, tr, data)
		if failure = Write(dir, contents(t, tr)); failure == nil {
			fits++
		}
	}
	if fits == 0 || !errors.Is(failure, syscall.ENOSPC) || !strings.Contains(failure.Error(), "no space left on device") {
		t.Fatalf("%d fit, then %v", fits, failure)
	}
	if s, damaged, err := Newest(dir); err != nil || s.Step != fits || len(damaged) > 0 {
		t.Errorf("%v, %v, %v, want step %d", s, damaged, err, fits)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != fits {
		t.Errorf("%v, %v: want %d snapshots and nothing else", entries, err, fits)
	}
}
