package experiments

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Experiments' own folders start no goroutines, and make race leaves them out; but functions
// of theirs make samples beside one another (lab.Job, trained.Each). None of those assigns to
// what it shares with others.
func TestSamplesShareNothing(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		n, shared, err := assignsShared(name, nil)
		for _, s := range shared {
			t.Error(s)
		}
		found += n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 15 {
		t.Errorf("%d functions that make samples: want all of them found", found)
	}

	const wrong = `package p
func f() (err error) {
	count := 0
	return trained.Each(ctx, func(t T) (any, error) {
		made := &trial{}
		made.of, err = train(t)
		lab.Job{Make: func() { count++; made.of = 1 }}
		return made, err
	})
}`
	n, shared, err := assignsShared("wrong.go", wrong)
	if want := []string{"wrong.go:6:12: err", "wrong.go:7:26: count", "wrong.go:7:35: made"}; err != nil || n != 2 || !slices.Equal(shared, want) {
		t.Errorf("%d, %v, %v, want %v", n, shared, err, want)
	}
}

// assignsShared returns how many functions of a file make samples, and what they assign to
// that they have not declared.
func assignsShared(name string, source any) (makers int, shared []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, 0)
	if err != nil {
		return 0, nil, err
	}
	check := func(x ast.Expr) {
		f, ok := x.(*ast.FuncLit)
		if !ok {
			return
		}
		makers++
		own := declared(f)
		assigned := func(x ast.Expr) {
			if id := root(x); id != nil && id.Name != "_" && !own[id.Name] {
				shared = append(shared, fmt.Sprintf("%s: %s", files.Position(id.Pos()), id.Name))
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				return !isJob(n) // which is looked at by itself
			case *ast.AssignStmt:
				for _, x := range n.Lhs {
					assigned(x)
				}
			case *ast.IncDecStmt:
				assigned(n.X)
			}
			return true
		})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Each" && len(n.Args) > 0 {
				check(n.Args[len(n.Args)-1])
			}
		case *ast.CompositeLit:
			if isJob(n) {
				for _, field := range n.Elts {
					if kv, ok := field.(*ast.KeyValueExpr); ok {
						check(kv.Value)
					}
				}
			}
		}
		return true
	})
	return makers, shared, nil
}

func isJob(c *ast.CompositeLit) bool {
	switch x := c.Type.(type) {
	case *ast.Ident:
		return x.Name == "Job"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Job"
	}
	// An element of a list of jobs.
	return c.Type == nil && slices.ContainsFunc(c.Elts, func(x ast.Expr) bool {
		kv, ok := x.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := kv.Key.(*ast.Ident)
		return ok && key.Name == "Make"
	})
}

// declared are the names that a function declares, its parameters and results among them.
func declared(f *ast.FuncLit) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		var ids []*ast.Ident
		switch n := n.(type) {
		case *ast.CompositeLit:
			return !isJob(n)
		case *ast.Field:
			ids = n.Names
		case *ast.ValueSpec:
			ids = n.Names
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, x := range n.Lhs {
					ids = append(ids, x.(*ast.Ident))
				}
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					ids = append(ids, id)
				}
			}
		}
		for _, id := range ids {
			names[id.Name] = true
		}
		return true
	})
	return names
}

// root is the variable that an assignment to an expression changes, or what it points to.
func root(x ast.Expr) *ast.Ident {
	for {
		switch of := x.(type) {
		case *ast.Ident:
			return of
		case *ast.SelectorExpr:
			x = of.X
		case *ast.IndexExpr:
			x = of.X
		case *ast.StarExpr:
			x = of.X
		case *ast.ParenExpr:
			x = of.X
		default:
			return nil
		}
	}
}
