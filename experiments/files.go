package experiments

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpipebench/gpipe/timeline"
)

// WriteFile makes a file of what write writes. It appears under its name only
// when it is complete: until then, and after any error, what was there before
// stays. A symbolic link is followed; what is no regular file, such as
// /dev/stdout, is written to as it is.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", name, reason(err))
		}
	}()
	target := name
	if resolved, err := filepath.EvalSymlinks(name); err == nil {
		target = resolved
	}
	if st, err := os.Stat(target); err == nil && !st.Mode().IsRegular() {
		f, err := os.OpenFile(target, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return fill(f, write)
	}
	f, err := os.CreateTemp(filepath.Dir(target), unfinished)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails when it has been renamed
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		return err
	}
	if err := fill(f, write); err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}

// unfinished is the pattern of temporary files' names.
const unfinished = ".unfinished-*"

// sweep removes temporary files that a process which was killed left behind: those
// that nobody has written to for a minute.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, unfinished))
	if err != nil {
		return err
	}
	for _, name := range left {
		if st, err := os.Stat(name); err == nil && time.Since(st.ModTime()) > time.Minute {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill writes to a file and closes it.
func fill(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
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

// WriteTrace writes a step's timeline: as a picture if the file's name ends in
// .svg, as text if it ends in .txt, and else as Chrome trace JSON.
func WriteTrace(name string, tl *timeline.Timeline) error {
	return WriteFile(name, func(w io.Writer) error {
		switch strings.ToLower(filepath.Ext(name)) {
		case ".svg":
			return timeline.WriteSVG(w, timeline.Drawing{Caption: caption(tl), Timeline: tl})
		case ".txt":
			return timeline.WriteText(w, tl, 120)
		}
		return timeline.WriteChrome(w, tl, nil)
	})
}

// caption is what can be said about a step from its events.
func caption(tl *timeline.Timeline) string {
	micro := 0
	for _, e := range tl.Events {
		micro = max(micro, e.Micro+1)
	}
	return fmt.Sprintf("K = %d, M = %d", tl.Devices, micro)
}

// CheckWritable fails early if a file could not be written at the end of a long
// run. No name means that no file is wanted.
func CheckWritable(name string) error {
	if name == "" {
		return nil
	}
	st, err := os.Stat(name)
	switch {
	case err == nil && st.IsDir():
		return fmt.Errorf("%s is a directory: want the name of a file", name)
	case err == nil && !st.Mode().IsRegular():
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), unfinished)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, reason(err))
	}
	f.Close()
	return os.Remove(f.Name())
}
