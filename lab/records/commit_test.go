package records

import (
	"os"
	"os/exec"
	"path/filepath"
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
	sources := root()
	if !filepath.IsAbs(sources) {
		t.Log("built with -trimpath: no sources are known")
		return
	}
	want := ""
	if out, err := exec.Command("git", "-C", sources, "rev-parse", "HEAD").Output(); err == nil {
		want = strings.TrimSpace(string(out))
	}
	if got, _ := commitOf(executable, sources); got != want {
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
	if got, _ := commitOf(executable, sources); got != want {
		t.Errorf("started in another checkout: commit %q, want %q", got, want)
	}
	for _, c := range []struct{ executable, sources string }{
		{filepath.Join(elsewhere, "gpipebench"), sources}, // the checkout may have moved on since
		{executable, elsewhere},
		{executable, "gpipebench"}, // -trimpath
	} {
		if got, dirty := commitOf(c.executable, c.sources); got != "" || dirty {
			t.Errorf("%s of %s: commit %q", c.executable, c.sources, got)
		}
	}
}
