//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpipebench/internal/testkit"
)

// A disk that is read-only from the beginning is refused before anything is computed.
func TestReadOnlyDisk(t *testing.T) {
	disk := t.TempDir()
	if !mounted(t, disk, "size=1m,ro") {
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
	f := testkit.Must(os.Create(filepath.Join(disk, filler)))(t)
	defer f.Close()
	var err error
	for size := 1 << 20; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	testkit.Is(t, err, syscall.ENOSPC)
}
