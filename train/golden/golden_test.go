package golden

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"gpipebench/nn"
)

var update = flag.Bool("update", false, "write the published outcomes anew, with AVX-512 kernels: only after a change that should move them, which says so")

// TestGolden trains, and compares the weights and the loss with what was published.
func TestGolden(t *testing.T) {
	var lines strings.Builder
	for _, training := range Trainings {
		t.Run(training.Name, func(t *testing.T) {
			o, err := training.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&lines, training.Name, o)
			if want := training.Published(); o.String() != want && !*update {
				t.Errorf("ends with %v on %s kernels, want %s", o, nn.KernelProfile(), want)
			}
		})
	}
	if *update && nn.KernelProfile() == "avx512" {
		if err := os.WriteFile("testdata/published.txt", []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
