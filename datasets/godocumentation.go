package datasets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/internal/files"
)

// WriteGoDocumentation writes a text to a file, and returns it with the version
// of the Go toolchain. Every machine with that toolchain has the text: the
// files of its doc directory (the language's specification, the memory model)
// and the package documentation of its standard library, in order of path.
func WriteGoDocumentation(name string) (text []byte, version string, err error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, "", fmt.Errorf("go env GOROOT: %w: want the go command in the path", err)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	parts, err := documentation(os.DirFS(root))
	if err != nil {
		return nil, "", err
	}
	for _, name := range parts {
		part, err := files.Read(filepath.Join(root, filepath.FromSlash(name)), files.Kind{What: "documentation", Bytes: 16 << 20})
		if err != nil {
			return nil, "", err
		}
		text = append(text, part...)
		text = append(text, '\n')
	}
	if len(text) == 0 {
		return nil, "", errors.New("the Go distribution has no documentation: want doc/*.html or src/**/doc.go in it")
	}
	return text, strings.TrimSpace(version), files.Write(name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// documentation lists the files in order of path.
func documentation(root fs.FS) ([]string, error) {
	var files []string
	for _, pattern := range []string{"doc/*.html", "doc/*.md"} {
		names, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, names...)
	}
	err := fs.WalkDir(root, "src", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == "src":
			return fs.SkipAll // a distribution without sources
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case !d.IsDir() && d.Name() == "doc.go":
			files = append(files, name)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}
