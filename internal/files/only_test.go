package files

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// elsewhere lists the functions that only this package may call: those that
// open files by name, and those that read without a bound.
var elsewhere = map[string][]string{
	"os":        {"Create", "CreateTemp", "Open", "OpenFile", "ReadFile", "Rename", "WriteFile"},
	"io":        {"ReadAll"},
	"io/ioutil": {"ReadAll", "ReadFile", "WriteFile", "TempFile"},
}

// The program reads and writes every named file through this package. Code that
// only tests and tools run is exempt.
func TestNothingElseOpensFiles(t *testing.T) {
	const root = "../.."
	seen := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") || name == filepath.Join(root, "internal", "files") || isModule(name) && name != root || name != root && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		seen++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		refused := map[string]bool{} // under the names that the file uses
		for _, i := range f.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			local := path[strings.LastIndexByte(path, '/')+1:]
			if i.Name != nil {
				local = i.Name.Name
			}
			for _, function := range elsewhere[path] {
				refused[local+"."+function] = true
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && refused[x.Name+"."+s.Sel.Name] {
					t.Errorf("%s: %s.%s: want internal/files", set.Position(s.Pos()), x.Name, s.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	testkit.NoError(t, err)
	if seen < 100 {
		t.Errorf("only %d files seen", seen)
	}
}

// isModule reports whether a directory has a module of its own, which cannot import this one's internals.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
