package experiments

import (
	"testing"
)

// What the program's own specs say can run, in every profile.
func TestOwnSpecsCanRun(t *testing.T) {
	for _, e := range experiments {
		t.Run(e.id, func(t *testing.T) {
			loaded, err := e.load()
			if err != nil {
				t.Fatal(err)
			}
			if err := checkRuns(loaded, SpecFile{Name: e.id}); err != nil {
				t.Error(err)
			}
		})
	}
}
