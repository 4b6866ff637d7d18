package gpipe

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// schemata compiles this package's tests once, with all mutants in them (Untch, Offutt and
// Harrold, Mutation Analysis Using Mutant Schemata, ISSTA 1993): a function that has one
// calls a copy of itself with the defect, if the environment has the mutant's number.
// Nothing on disk changes. It returns the program.
func schemata(t *testing.T, goCommand string, mutants []mutant, environment, flags []string) (program string) {
	t.Helper()
	dir := t.TempDir()
	overlay := map[string]string{}
	put := func(path string, content []byte) {
		at := overlay[path]
		if at == "" {
			at = filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay)))
		}
		noError(t, os.WriteFile(at, content, 0o644))
		overlay[path] = at
	}
	files := map[string][]int{}
	for i, m := range mutants {
		path := must(filepath.Abs(m.file))(t)
		files[path] = append(files[path], i)
	}
	for path, own := range files {
		source := must(os.ReadFile(path))(t)
		text, name := mutated(t, path, string(source), mutants, own)
		put(path, []byte(text))
		// The same in every file of a package.
		put(filepath.Join(filepath.Dir(path), "activemutant.go"), []byte("package "+name+`

import "os"

var activeMutant = os.Getenv("`+mutantVariable+`")
`))
	}
	replace := must(json.Marshal(map[string]any{"Replace": overlay}))(t)
	list := filepath.Join(dir, "overlay.json")
	program = filepath.Join(dir, "mutants.test")
	noError(t, os.WriteFile(list, replace, 0o644))
	cmd := exec.Command(goCommand, slices.Concat([]string{"test", "-c", "-vet=off", "-overlay", list, "-o", program}, flags, []string{"."})...)
	cmd.Env = environment
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the mutants do not compile: %v\n%s", err, out)
	}
	return program
}

// mutantVariable is set in a process that is a mutant.
const mutantVariable = "GPIPEBENCH_MUTANT"

func active(i int) string { return fmt.Sprint("mutant", i) }

// mutated is the text of a file with the mutants own in it, and its package's name.
func mutated(t *testing.T, path, source string, mutants []mutant, own []int) (text, name string) {
	t.Helper()
	files := token.NewFileSet()
	tree := must(parser.ParseFile(files, path, source, parser.SkipObjectResolution))(t)
	offset := func(at token.Pos) int { return files.Position(at).Offset }
	// insertions by place, the last first.
	type insertion struct {
		at   int
		text string
	}
	var all []insertion
	var copies strings.Builder
	for _, i := range own {
		m := mutants[i]
		from := strings.Index(source, m.from)
		if from < 0 {
			t.Fatalf("%s: %s has no %q to mutate", m.name, m.file, m.from)
		}
		if strings.Contains(source[from+len(m.from):], m.from) {
			t.Errorf("%s: %s has %q more than once", m.name, m.file, m.from)
		}
		f := functionAt(tree, func(f *ast.FuncDecl) bool {
			return offset(f.Pos()) <= from && from+len(m.from) <= offset(f.End())+1
		})
		if f == nil || f.Type.TypeParams != nil {
			t.Fatalf("%s: %q is in no function of %s that can be copied", m.name, m.from, m.file)
		}
		// The copy has the defect and another name.
		begin, end, named := offset(f.Pos()), offset(f.End())+1, offset(f.Name.End())
		copied := f.Name.Name + active(i)
		body := source[begin:named] + active(i) + source[named:from] + m.to + source[from+len(m.from):end]
		fmt.Fprintf(&copies, "\n%s\n", body)
		call := copied + "(" + strings.Join(arguments(t, f), ", ") + ")"
		if f.Recv != nil {
			call = f.Recv.List[0].Names[0].Name + "." + call
		}
		if f.Type.Results != nil {
			call = "return " + call
		} else {
			call += "\n\t\treturn"
		}
		all = append(all, insertion{offset(f.Body.Lbrace) + 1, fmt.Sprintf("\n\tif activeMutant == %q {\n\t\t%s\n\t}", active(i), call)})
	}
	slices.SortStableFunc(all, func(a, b insertion) int { return b.at - a.at })
	text = source
	for _, in := range all {
		text = text[:in.at] + in.text + text[in.at:]
	}
	return text + copies.String(), tree.Name.Name
}

func functionAt(tree *ast.File, has func(f *ast.FuncDecl) bool) *ast.FuncDecl {
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && has(f) {
			return f
		}
	}
	return nil
}

// arguments are what a function hands a copy of itself.
func arguments(t *testing.T, f *ast.FuncDecl) (all []string) {
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			if name.Name == "_" {
				t.Fatalf("%s has a parameter without a name", f.Name.Name)
			}
			argument := name.Name
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				argument += "..."
			}
			all = append(all, argument)
		}
		if len(field.Names) == 0 {
			t.Fatalf("%s has a parameter without a name", f.Name.Name)
		}
	}
	return all
}
