package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// README's program, in a module as README makes it, learns.
func TestReadmeFromGo(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	_, section, ok := bytes.Cut(read(filepath.Join(root, "README.md")), []byte("\n## From Go\n"))
	if !ok {
		t.Fatal("README.md has no section From Go")
	}
	commands := regexp.MustCompile("(?s)\n```\n(.*?)```\n").FindSubmatch(section)
	program := regexp.MustCompile("(?s)\n```go\n(.*?)```\n").FindSubmatch(section)
	if commands == nil || program == nil {
		t.Fatal("From Go has no commands or no program")
	}
	dir := t.TempDir()
	for line := range strings.Lines(string(commands[1])) {
		args, is := strings.CutPrefix(strings.TrimSpace(line), "go ")
		if is {
			offline(t, dir, strings.Fields(strings.ReplaceAll(args, "/path/to/gpipebench", root))...)
		}
	}
	// What go mod tidy would add, without asking a proxy.
	indirect := regexp.MustCompile(`(?s)\nrequire \(\n.*?\n\)\n`).Find(read("go.mod"))
	for name, text := range map[string][]byte{
		"go.mod":  append(read(filepath.Join(dir, "go.mod")), indirect...),
		"go.sum":  read("go.sum"),
		"main.go": program[1],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := offline(t, dir, "run", ".")
	if !regexp.MustCompile(`^weights [0-9a-f]{64}\n$`).MatchString(out) {
		t.Errorf("it prints %q", out)
	}
	if hash := regexp.MustCompile("[0-9a-f]{64}"); hash.FindString(out) != string(hash.Find(section)) {
		t.Errorf("it prints %q, and README.md has the weights %s", out, hash.Find(section))
	}
}

// offline runs the go command in a folder, without a proxy.
func offline(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s%s", strings.Join(args, " "), dir, err, out, stderr.Bytes())
	}
	return string(out)
}
