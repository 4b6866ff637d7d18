package experiments

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gpipebench/gpipe/timeline"
)

// WriteFile makes a file of what write writes. It appears under its name only
// when it is complete: until then, and after any error, what was there before
// stays.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".unfinished-*")
	if err != nil {
		return fmt.Errorf("%s: %w", name, reason(err))
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return reason(err)
	}
	if err := f.Chmod(0o644); err != nil {
		return reason(err)
	}
	if err := f.Close(); err != nil {
		return reason(err)
	}
	return reason(os.Rename(f.Name(), name))
}

// reason is an error of the file system without the path in it, which may be
// that of a temporary file.
func reason(err error) error {
	switch e := err.(type) {
	case *os.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// WriteTrace writes a timeline as Chrome trace JSON.
func WriteTrace(name string, tl *timeline.Timeline) error {
	return WriteFile(name, func(w io.Writer) error { return timeline.WriteChrome(w, tl, nil) })
}

// CheckWritable fails early if a file could not be written at the end of a long
// run: its directory is missing, or it is a directory itself.
func CheckWritable(name string) error {
	if name == "" {
		return nil
	}
	dir := filepath.Dir(name)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("%s: no directory %s to write it to", name, dir)
	}
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return fmt.Errorf("%s is a directory: want the name of a file", name)
	}
	return nil
}
