package gpipebench

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Every source in the engine's folders is in its digest, except what only tests use.
func TestEngineIsWhole(t *testing.T) {
	var embedded []string
	if err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			embedded = append(embedded, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"internal/kernel", "nn", "models", "gpipe", "datasets"} {
		if err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); d.IsDir() && err == nil {
				return filepath.SkipDir // a module of its own
			}
			if d.IsDir() && (strings.HasSuffix(name, "test") || strings.HasSuffix(name, "oracle")) {
				return filepath.SkipDir
			}
			source := strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".s") || filepath.Ext(name) == ".yaml"
			if source && !strings.Contains(name, "testdata") && !slices.Contains(embedded, filepath.ToSlash(name)) {
				t.Errorf("%s is not in the engine's digest", name)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Equal(t, len(Engine()), 16, "engine %q", Engine())
}
