package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Below lists the files in a folder of a directory and its subfolders, by their
// names relative to the directory, with slashes. It leaves out directories and
// the unfinished files of killed processes. A folder that does not exist has no
// files.
func Below(dir, folder string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), folder, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == folder {
			return fs.SkipAll
		}
		if err != nil || d.IsDir() {
			return err
		}
		if !Unfinished(d.Name()) {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// FirstOf names the first of some files of a directory and the number of the
// others.
func FirstOf(dir string, names []string) string {
	text := filepath.Join(dir, filepath.FromSlash(names[0]))
	if more := len(names) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}
