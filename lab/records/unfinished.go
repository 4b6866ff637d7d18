package records

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpipebench"
	"gpipebench/internal/machine"
)

// Unfinished returns the directory for what a process keeps of a sample that it has begun to
// make, such as a training's snapshots, from which the next one with the same key and engine
// goes on. It is empty if the log has no file. [Log.Add] removes it, as [Log.Finished] does.
func (l *Log) Unfinished(sample string) string {
	if l.file == nil {
		return ""
	}
	return filepath.Join(l.unfinished(sample), machine.Digest(l.Key.Spec, l.Key.Machine, gpipebench.Engine()))
}

// unfinished is the directory of a sample, whatever else its key is.
func (l *Log) unfinished(sample string) string {
	out := filepath.Dir(filepath.Dir(l.file.Name()))
	return filepath.Join(out, "snapshots", l.begins()+machine.Digest(sample))
}

// begins is how the names of unfinished directories begin.
func (l *Log) begins() string { return l.Key.Experiment + "-" + l.Key.Profile + "-" }

// forget removes what earlier processes have kept of samples.
func (l *Log) forget() error {
	dir := filepath.Dir(l.unfinished(""))
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), l.begins()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// Finished removes what processes have kept of a sample: see [Log.Unfinished].
func (l *Log) Finished(sample string) error {
	if l.file == nil {
		return nil
	}
	begun := l.unfinished(sample)
	if err := os.RemoveAll(begun); err != nil {
		return err
	}
	os.Remove(filepath.Dir(begun)) // which fails while others are there
	return nil
}
