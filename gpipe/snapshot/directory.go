package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"gpipebench/internal/files"
)

var folderName = regexp.MustCompile(`^step-([0-9]{10})$`)

// Steps returns the steps of a directory's snapshots, whole or not, in ascending order. A
// snapshot may be a link to a folder elsewhere. A directory that does not exist has none.
func Steps(dir string) (steps []int, err error) {
	entries, err := os.ReadDir(dir)
	var failed *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.As(err, &failed):
		return nil, fmt.Errorf("%s: %w", files.Printable(dir), failed.Err)
	case err != nil:
		return nil, err
	}
	for _, e := range entries {
		name := folderName.FindStringSubmatch(e.Name())
		if name == nil {
			continue
		}
		at, err := os.Stat(filepath.Join(dir, e.Name())) // of a folder elsewhere, if this is a link to one
		if err == nil && at.IsDir() {
			if step, err := strconv.Atoi(name[1]); err == nil {
				steps = append(steps, step)
			}
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// Newest returns the newest snapshot of a directory that is whole, nil if the directory
// has none. damaged has an error for each newer one, which says what is wrong with it. If
// all are damaged, or if one that is not is of another version (*VersionError), that is an
// error.
func Newest(dir string) (newest *Snapshot, damaged []error, err error) {
	steps, err := Steps(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, step := range slices.Backward(steps) {
		s, err := Open(Name(dir, step))
		var version *VersionError
		switch {
		case err == nil:
			return s, damaged, nil
		case errors.As(err, &version):
			return nil, damaged, err
		}
		damaged = append(damaged, err)
	}
	if n := len(damaged); n > 1 {
		return nil, damaged, fmt.Errorf("%w (and the %d before it are damaged, too)", damaged[0], n-1)
	} else if n == 1 {
		return nil, damaged, damaged[0]
	}
	return nil, nil, nil
}

// Prune removes all snapshots of a directory up to a step but the newest of them. Later ones, which
// a training that goes on from an earlier one found damaged, stay and are not counted.
func Prune(dir string, upTo, keep int) error {
	steps, err := Steps(dir)
	if err != nil {
		return err
	}
	end, _ := slices.BinarySearch(steps, upTo+1)
	for _, step := range steps[:max(0, end-keep)] {
		if err := files.RemoveDir(Name(dir, step)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
