package gpipebench

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A program without a stamp gets its commit from where its sources are, not from
// where it is started.
func TestCommitOfSources(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, source, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(source) {
		t.Log("built with -trimpath: no sources are known")
		return
	}
	want := ""
	if out, err := exec.Command("git", "-C", filepath.Dir(source), "rev-parse", "HEAD").Output(); err == nil {
		want = strings.TrimSpace(string(out))
	}
	if got, _ := commitOf(executable, source); got != want {
		t.Errorf("%s: commit %q, want %q", executable, got, want)
	}
	// Another checkout of a module of this name.
	elsewhere := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", elsewhere, "-c", "user.name=n", "-c", "user.email=e@example.org"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v, %s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(elsewhere, "go.mod"), []byte("module gpipebench\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "another")
	t.Chdir(elsewhere)
	t.Setenv("GIT_DIR", filepath.Join(elsewhere, ".git"))
	if got, _ := commitOf(executable, source); got != want {
		t.Errorf("started in another checkout: commit %q, want %q", got, want)
	}
	for _, c := range []struct{ executable, source string }{
		{filepath.Join(elsewhere, "gpipebench"), source}, // the checkout may have moved on since
		{executable, filepath.Join(elsewhere, "commit.go")},
		{executable, "gpipebench/commit.go"}, // -trimpath
	} {
		if got, dirty := commitOf(c.executable, c.source); got != "" || dirty {
			t.Errorf("%s of %s: commit %q", c.executable, c.source, got)
		}
	}
}
