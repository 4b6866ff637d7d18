package claims

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Claims are judged by tables alone: nothing here can train, simulate or count a network.
func TestClaimsRunNoEngine(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			own, ok := strings.CutPrefix(path, "gpipebench/")
			if !ok {
				continue
			}
			seen++
			if own != "lab" && own != "lab/records" && own != "lab/verdict" && !strings.HasPrefix(own, "internal/") {
				t.Errorf("%s imports %s: want a counted table instead", name, path)
			}
		}
	}
	if seen == 0 {
		t.Error("no imports are seen")
	}
}
