package claims

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Claims are judged by tables alone: nothing here can train, simulate or count a network.
func TestClaimsRunNoEngine(t *testing.T) {
	files := testkit.Must(filepath.Glob("*.go"))(t)
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f := testkit.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly))(t)
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
