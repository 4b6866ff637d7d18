package transport

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// bounded are the waits without a context or a timer beside them, and what ends each.
var bounded = map[string]string{
	"channelSession.Send: <-p.taken":     "the receiver's copy, in this process, which waits for nothing",
	"during: <-done":                     "a function that has begun and only sets a deadline",
	"outLine.send: <-l.turn":             "its own turn, which it holds",
	"inLine.receive: <-l.turn":           "its own turn, which it holds",
	"End.shut: e.running.Wait()":         "goroutines whose connections, listener and context have been closed",
	"connection.next: c.changed.Wait()":  "a deadline, Close, or the end of MPI",
	"connection.Write: c.changed.Wait()": "a deadline, Close, or the end of MPI",
	"listener.Accept: n.changed.Wait()":  "Close, or the end of MPI",
	"initialise: started <- err":         "its buffer",
}

// Each wait of the transports ends with a context, a timer or something that is named here.
func TestWaitsAreBounded(t *testing.T) {
	found := map[string]bool{}
	for _, pattern := range []string{"*.go", "sockets/*.go", "mpi/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				for _, w := range waitsIn(f) {
					if found[w] = true; bounded[w] == "" {
						t.Errorf("%s: %s: want a context, a timer, or a reason why it ends", name, w)
					}
				}
			}
		}
	}
	for w := range bounded {
		if !found[w] {
			t.Errorf("%s: no such wait any more", w)
		}
	}
}

// waitsIn are a function's waits that nothing beside them ends.
func waitsIn(f *ast.FuncDecl) (waits []string) {
	text := func(n ast.Node) string {
		var b bytes.Buffer
		if err := printer.Fprint(&b, token.NewFileSet(), n); err != nil {
			panic(err)
		}
		return b.String()
	}
	name := f.Name.Name
	if f.Recv != nil {
		name = strings.TrimPrefix(text(f.Recv.List[0].Type), "*") + "." + name
	}
	add := func(what string) {
		if sent, _, composed := strings.Cut(what, "{"); composed {
			what = sent
		}
		if call, _, arguments := strings.Cut(what, "(\""); arguments {
			what = call
		}
		waits = append(waits, name+": "+what)
	}
	inSelect := map[ast.Node]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			ends := false
			for _, c := range n.Body.List {
				comm := c.(*ast.CommClause).Comm
				if comm == nil { // default
					ends = true
					continue
				}
				ast.Inspect(comm, func(n ast.Node) bool { inSelect[n] = true; return true })
				from := text(comm)
				ends = ends || strings.Contains(from, ".Done()") || strings.Contains(from, "time.After(") ||
					strings.HasSuffix(from, "ticks.C") || strings.HasSuffix(from, "patience.C") || strings.HasSuffix(from, "t.C") || strings.HasSuffix(from, "nap.C")
			}
			if !ends {
				add("select")
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && !inSelect[n] {
				add(text(n))
			}
		case *ast.SendStmt:
			if !inSelect[n] {
				add(text(n))
			}
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Wait" {
				add(text(n))
			}
		}
		return true
	})
	return waits
}
