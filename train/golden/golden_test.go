package golden

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

var update = flag.Bool("update", false, "write the published outcomes anew, with AVX-512 kernels: only after a change that should move them, which says so")

// TestGolden trains, and compares the weights and the loss with what was published.
func TestGolden(t *testing.T) {
	var lines strings.Builder
	for _, training := range Trainings {
		t.Run(training.Name, func(t *testing.T) {
			o := testkit.Must(training.Run(t.Context()))(t)
			fmt.Fprintln(&lines, training.Name, o)
			if want := training.Published(); o.String() != want && !*update {
				t.Errorf("ends with %v on %s kernels, want %s", o, nn.KernelProfile(), want)
			}
		})
	}
	if *update && nn.KernelProfile() == "avx512" {
		testkit.NoError(t, os.WriteFile("testdata/published.txt", []byte(lines.String()), 0o644))
	}
}

// random has what the trainings of TestRandom end with, a line for each: the first half of the
// SHA-256, and the loss. It is embedded, as WebAssembly's runtime has no working directory.
//
//go:embed testdata/random.txt
var random string

// TestRandom trains small networks that are drawn, and compares as TestGolden does. Emulators of
// other processors, which are slow, get each tenth.
func TestRandom(t *testing.T) {
	want := strings.Split(random, "\n")
	var lines strings.Builder
	for i, training := range Random(1, 200) {
		if (testing.Short() || runtime.GOARCH != "amd64") && i%10 != 0 {
			continue
		}
		t.Run(training.Name, func(t *testing.T) {
			o := testkit.Must(training.Run(t.Context()))(t)
			o.SHA256 = o.SHA256[:32]
			line := fmt.Sprint(training.Name, " ", o)
			fmt.Fprintln(&lines, line)
			if !*update && line != want[i] {
				t.Errorf("ends with %s on %s kernels, want %s", line, nn.KernelProfile(), want[i])
			}
		})
	}
	if *update && nn.KernelProfile() == "avx512" && !testing.Short() {
		testkit.NoError(t, os.WriteFile("testdata/random.txt", []byte(lines.String()), 0o644))
	}
}

// What ends otherwise than published is named, in its line and in the error.
func TestCheckDiffers(t *testing.T) {
	defer func(was string, all []Training) { published, Trainings = was, all }(published, Trainings)
	Trainings = Trainings[:3]
	published = strings.Replace(strings.Replace(published, "from-go f1", "from-go f2", 1), "\nlm 1b", "\nlm 1c", 1)
	var lines []string
	err := Check(t.Context(), func(line string) error { lines = append(lines, line); return nil })
	if err == nil || !strings.HasPrefix(err.Error(), "2 of 3 golden trainings differ from what was published (from-go, lm)") {
		t.Error(err)
	}
	if len(lines) != len(Trainings) || !strings.HasSuffix(lines[0], "f1a7e2aa  DIFFERS: published is f2a7e2aa") || !strings.HasSuffix(lines[2], "as published") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}
