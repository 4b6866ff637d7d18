package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// What docs/howto.md adds from end to end, a model and an experiment of each kind,
// works when it is copied literally: new files as they stand there, and its lines in the
// lists, over the files of this repository.
func TestHowtoWorksAsWritten(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	root := testkit.Must(filepath.Abs(filepath.Join("..", "..")))(t)
	read := func(name string) string {
		t.Helper()
		return string(testkit.Must(os.ReadFile(filepath.Join(root, name)))(t))
	}
	howto, dir := read("docs/howto.md"), t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	put := func(name, text string) {
		t.Helper()
		copied := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		testkit.NoError(t, os.WriteFile(copied, []byte(text), 0o600))
		overlay.Replace[filepath.Join(root, name)] = copied
	}

	// A block is a new file if the line before it names one that there is not yet.
	files := map[string]string{}
	named := regexp.MustCompile("`([a-z0-9/]+/[a-z0-9]+\\.(?:go|md|yaml))`")
	for _, m := range regexp.MustCompile("(?s)\n([^\n]*:)\n\n```[a-z]+\n(.*?)```\n").FindAllStringSubmatch(howto, -1) {
		names := named.FindAllStringSubmatch(m[1], -1)
		if len(names) == 0 {
			continue
		}
		name := names[len(names)-1][1]
		if _, err := os.Stat(filepath.Join(root, name)); os.IsNotExist(err) {
			files[name] = m[2]
		}
	}
	for _, id := range []string{"schedules", "clipping", "hashes"} { // "as above"
		files["experiments/gpipe/"+id+"/about.md"] = files["experiments/gpipe/accelerators/about.md"]
	}
	for _, name := range []string{
		"models/cnn/cnn.go", "experiments/gpipe/accelerators/spec.yaml", "experiments/gpipe/accelerators/about.md", "experiments/gpipe/accelerators.go",
		"experiments/gpipe/schedules/spec.yaml", "experiments/gpipe/schedules/about.md", "experiments/gpipe/schedules.go",
		"experiments/gpipe/clipping/spec.yaml", "experiments/gpipe/hashes/spec.yaml",
	} {
		if files[name] == "" {
			t.Fatalf("docs/howto.md does not have the file %s", name)
		}
	}
	for name, text := range files {
		put(name, text)
	}

	insert := func(name, before, lines, imports string) {
		t.Helper()
		text := read(name)
		if strings.Count(text, before) != 1 {
			t.Fatalf("%s: %q is not there once", name, before)
		}
		text = strings.Replace(text, before, lines+before, 1)
		put(name, strings.Replace(text, "import (\n", "import (\n"+imports, 1))
	}
	row := regexp.MustCompile("(?s)```go\n(\t\\{name: \"cnn\".*?)```").FindStringSubmatch(howto)
	if row == nil {
		t.Fatal("docs/howto.md has no row for the model")
	}
	insert("train/models.go", "\t{name: ConvNet,", row[1], "\t\"gpipebench/models/cnn\"\n")
	insert("experiments/gpipe/gpipe.go", "\t\t{ID: \"validation\", New: newValidation},\n", "\t\t{ID: \"accelerators\", New: accelerators.New},\n\t\t{ID: \"schedules\", New: newSchedules},\n\t\t{ID: \"clipping\"},\n\t\t{ID: \"hashes\"},\n", "")

	claim := regexp.MustCompile("(?s)```yaml\n(  - id: accelerators-.*?)```").FindStringSubmatch(howto)
	if claim == nil {
		t.Fatal("docs/howto.md has no claim on accelerators")
	}
	put("experiments/gpipe/claims.yaml", read("experiments/gpipe/claims.yaml")+claim[1])

	raw := testkit.Must(json.Marshal(overlay))(t)
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "gpipebench")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	testkit.NoError(t, os.WriteFile(list, raw, 0o600))
	build := exec.Command("go", "build", "-buildvcs=false", "-overlay", list, "-o", program, "./cmd/gpipebench")
	build.Dir = root
	out, err := build.CombinedOutput()
	testkit.NoError(t, err, "%s", out)
	gpipebench := func(line string) string {
		t.Helper()
		cmd := exec.Command(program, strings.Fields(line)...)
		cmd.Dir = dir
		var errs strings.Builder
		cmd.Stderr = &errs
		out := testkit.Must(cmd.Output())(t, "%s, %s", line, &errs)
		return string(out)
	}

	testkit.Has(t, gpipebench("describe --model cnn --layers 6 --image 32 --classes 10 -k 3"), "(32,32,64)")
	hash := regexp.MustCompile(`weights SHA-256 [0-9a-f]{64}`)
	one := hash.FindString(gpipebench("train --model cnn --layers 6 --width 16 --image 32 --steps 5 -k 1 -m 8"))
	three := hash.FindString(gpipebench("train --model cnn --layers 6 --width 16 --image 32 --steps 5 -k 3 -m 2 --schedule 1f1b"))
	if one == "" || one != three {
		t.Errorf("in one piece %s, in three %s", one, three)
	}
	for _, name := range []string{"accelerators", "schedules", "clipping", "hashes"} {
		testkit.Has(t, gpipebench(name+" --profile smoke --format markdown --out "+name+" --reference="), "|")
		for _, file := range []string{name + ".md", name + ".svg"} {
			if file == "hashes.svg" { // bits have no plot
				continue
			}
			testkit.Must(os.Stat(filepath.Join(dir, name, "tables", file)))(t)
		}
	}
	svg := testkit.Must(os.ReadFile(filepath.Join(dir, "accelerators", "tables", "accelerators.svg")))(t)
	testkit.Has(t, string(svg), ">K = 8<", ">h100<") // a series and a group
	id := strings.Fields(claim[1])[2]
	testkit.Has(t, gpipebench("verify --results accelerators --only "+id), "agrees            At K = 8")
}
