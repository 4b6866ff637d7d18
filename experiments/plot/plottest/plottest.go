// Package plottest checks plots.
package plottest

import (
	"strings"
	"testing"

	"gpipebench/experiments/suite"
)

func Check(t *testing.T, r *suite.Report) {
	t.Helper()
	if len(r.Files) != 2 || !strings.HasPrefix(r.Files[0].Text, "<?xml") || !strings.HasPrefix(r.Files[1].Text, "\x89PNG") {
		t.Errorf("%d files, want an SVG and a PNG", len(r.Files))
	}
}
