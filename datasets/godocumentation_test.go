package datasets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

func TestDocumentationIsSorted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"doc/b.html", "doc/a.html", "doc/x.txt", "src/z/doc.go", "src/a/doc.go", "src/a/other.go", "src/a/testdata/doc.go"} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		testkit.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testkit.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	files := testkit.Must(documentation(os.DirFS(dir)))(t)
	testkit.Equal(t, strings.Join(files, " "), "doc/a.html doc/b.html src/a/doc.go src/z/doc.go")
}
