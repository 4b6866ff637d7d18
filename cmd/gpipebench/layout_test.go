package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Packages import only those of their own row of the table of folders in docs/CONTRIBUTING.md and of
// rows below it; a folder without a name there is of its parent's row. Tests and what supports them
// import what they need, and whose internal packages may be imported is for the compiler.
func TestImportsGoDown(t *testing.T) {
	root := filepath.Join("..", "..")
	text := string(testkit.Must(os.ReadFile(filepath.Join(root, "docs", "CONTRIBUTING.md")))(t))
	text, _, _ = strings.Cut(text, "\n## Run\n")
	rows := map[string]int{} // by folder
	for i, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(text, -1) {
		beside := "" // of the names without a folder: the first one's
		for j, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if j == 0 {
				beside = path.Dir(name[1])
			}
			folder := name[1]
			if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
				folder = path.Join(beside, folder)
			}
			if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
				t.Errorf("no folder %s", name[1])
			}
			rows[folder] = i
		}
	}
	rowOf := func(folder string) int {
		for ; folder != "."; folder = path.Dir(folder) {
			if row, ok := rows[folder]; ok {
				return row
			}
		}
		return -1
	}
	seen := 0
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		folder := path.Dir(name)
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(root, name, "go.mod")); name != "." && err == nil { // a module of its own
				return fs.SkipDir
			}
		}
		if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(folder, "test") || folder == "." {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			quoted, _ := strconv.Unquote(i.Path.Value)
			to, own := strings.CutPrefix(quoted, "gpipebench/")
			if !own || strings.Contains("/"+to, "/internal/") {
				continue
			}
			seen++
			if from, to := rowOf(folder), rowOf(to); from < 0 || to < from {
				t.Errorf("%s imports %s, which is in a row above its own", name, quoted)
			}
		}
		return nil
	})
	if err != nil || seen < 1000 {
		t.Errorf("%d imports are seen, %v", seen, err)
	}
}
