// Longtests prints the arguments of go test that run what go test -short left out, whole or in
// part: the tests that ask testkit.CI or testing.Short, themselves or through a function of
// their package. With -deep these are the tests that make deep runs and make ci does not. Folders
// as arguments keep to the packages in them.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	deep := flag.Bool("deep", false, "of make deep")
	flag.Parse()
	asked := []string{"testing.Short", "testkit.CI"}
	if *deep {
		asked = []string{"testkit.Deep", "testkit.IsDeep", "testkit.InShard"}
	}
	dirs := map[string][]*ast.FuncDecl{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "tools" || path == "examples" || strings.HasSuffix(path, "testkit") || path != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		in := func(folder string) bool {
			return strings.HasPrefix(path, filepath.Clean(folder)+string(filepath.Separator))
		}
		if flag.NArg() > 0 && !slices.ContainsFunc(flag.Args(), in) {
			return nil
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				dir := "./" + filepath.ToSlash(filepath.Dir(path))
				dirs[dir] = append(dirs[dir], f)
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal("longtests: ", err)
	}
	var tests, packages []string
	for dir, functions := range dirs {
		if found := long(functions, asked); len(found) > 0 {
			tests, packages = append(tests, found...), append(packages, dir)
		}
	}
	slices.Sort(tests)
	slices.Sort(packages)
	fmt.Printf("-run ^(%s)$ %s\n", strings.Join(slices.Compact(tests), "|"), strings.Join(packages, " "))
}

// long is the tests among the functions of a package that ask one of some questions, or name a
// function that does.
func long(functions []*ast.FuncDecl, asked []string) (tests []string) {
	asks := map[string]bool{}
	for _, name := range asked {
		asks[name] = true
	}
	for before := 0; before < len(asks); {
		before = len(asks)
		for _, f := range functions {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && asks[x.Name+"."+n.Sel.Name] || asks[n.Sel.Name] {
						asks[f.Name.Name] = true
					}
				case *ast.Ident:
					if n != f.Name && asks[n.Name] {
						asks[f.Name.Name] = true
					}
				}
				return true
			})
		}
	}
	for _, f := range functions {
		if name := f.Name.Name; asks[name] && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")) {
			tests = append(tests, name)
		}
	}
	return tests
}
