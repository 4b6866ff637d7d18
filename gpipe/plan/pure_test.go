package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Plans are made of shapes alone: nothing here runs, waits or sends.
func TestPure(t *testing.T) {
	names, _ := filepath.Glob("*.go")
	for _, name := range names {
		text := testkit.Must(os.ReadFile(name))(t)
		for _, impure := range []string{`"context"`, `"sync"`, `"time"`, `/gpipe/transport`, "\tgo func"} {
			if !strings.HasSuffix(name, "_test.go") && strings.Contains(string(text), impure) {
				t.Errorf("%s has %s", name, impure)
			}
		}
	}
}
